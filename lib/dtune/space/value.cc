#include "dtune/space/value.h"

#include <cmath>

#include <fmt/format.h>

namespace dtune {
namespace {

// fmt prints the shortest digits that read back as the same double; a real
// without point or exponent would read back as an integer.
std::string real_text(double value) {
  std::string text = fmt::format("{}", value);
  const bool looks_integer =
      text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_integer ? text + ".0" : text;
}

}  // namespace

std::string to_string(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) {
    return *flag ? "true" : "false";
  }
  if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    return fmt::format("{}", *integer);
  }
  if (const double* real = std::get_if<double>(&value)) {
    return real_text(*real);
  }
  return std::get<std::string>(value);
}

std::optional<double> as_number(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  if (const double* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::string describe(const Point& point) {
  std::string text;
  for (const auto& [name, value] : point) {
    if (!text.empty()) text += ' ';
    const double* real = std::get_if<double>(&value);
    text += name + '=' +
            (real != nullptr ? fmt::format("{:.3g}", *real) : to_string(value));
  }
  return text;
}

}  // namespace dtune
