#include "dtune/base/json.h"

#include <nlohmann/json.hpp>

namespace dtune {
namespace {

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

}  // namespace

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, kReplace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, kReplace);
}

std::string ascii_json(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, kReplace);
}

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

nlohmann::json try_parse_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace dtune
