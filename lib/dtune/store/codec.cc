#include "dtune/store/codec.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"

namespace dtune {
namespace {

using Json = nlohmann::json;

Json number_to_json(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

double number_from_json(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const auto& word = json.get_ref<const std::string&>();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error(ErrorKind::store, "'" + word + "' is not a number");
}

Json value_to_json(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  const double real = std::get<double>(value);
  if (std::isfinite(real)) return real;
  return Json{{"real", number_to_json(real)}};
}

Value value_from_json(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_object()) return number_from_json(json.at("real"));
  return json.get<std::string>();
}

// Calls `read` with the parsed text; whatever is wrong becomes Error(store).
template <typename Read>
auto parse(const std::string& text, const char* what, Read read) {
  try {
    return read(parse_json(text));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::store, std::string("the database holds ") + what +
                                      " that cannot be read: " + error.what());
  }
}

// Reads what encode_metrics writes for plain names and finite numbers: nearly
// every report, at a tenth of the general parser's time, which counts where a
// study has half a million of them. Empty for anything else.
std::optional<std::map<std::string, double>> plain_metrics(
    std::string_view text) {
  std::map<std::string, double> metrics;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip = [&](char wanted) {
    const bool there = at != end && *at == wanted;
    at += there ? 1 : 0;
    return there;
  };
  if (!skip('{')) return std::nullopt;
  do {
    if (!skip('"')) return std::nullopt;
    const char* const name = at;
    while (at != end && *at != '"' && *at != '\\') ++at;
    const std::string_view word(name, static_cast<size_t>(at - name));
    double value = 0;
    if (!skip('"') || !skip(':')) return std::nullopt;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
    at = stop;
    metrics.emplace_hint(metrics.end(), word, value);
  } while (skip(','));
  if (!skip('}') || at != end) return std::nullopt;
  return metrics;
}

}  // namespace

std::string encode_point(const Point& point) {
  Json json = Json::object();
  for (const auto& [name, value] : point) json[name] = value_to_json(value);
  return json_text(json);
}

std::string encode_metrics(const std::map<std::string, double>& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = number_to_json(value);
  return json_text(json);
}

std::string encode_unit(const std::vector<double>& unit) {
  Json json = Json::array();
  for (const double coordinate : unit)
    json.push_back(number_to_json(coordinate));
  return json_text(json);
}

Point decode_point(const std::string& json) {
  return parse(json, "a point", [](const Json& parsed) {
    Point point;
    for (const auto& [name, value] : parsed.get_ref<const Json::object_t&>()) {
      point[name] = value_from_json(value);
    }
    return point;
  });
}

std::map<std::string, double> decode_metrics(const std::string& json) {
  if (auto metrics = plain_metrics(json)) return *std::move(metrics);
  return parse(json, "metrics", [](const Json& parsed) {
    std::map<std::string, double> metrics;
    for (const auto& [name, value] : parsed.get_ref<const Json::object_t&>()) {
      metrics[name] = number_from_json(value);
    }
    return metrics;
  });
}

std::vector<double> decode_unit(const std::string& json) {
  return parse(json, "coordinates", [](const Json& parsed) {
    std::vector<double> unit;
    for (const Json& item : parsed.get_ref<const Json::array_t&>()) {
      unit.push_back(number_from_json(item));
    }
    return unit;
  });
}

}  // namespace dtune
