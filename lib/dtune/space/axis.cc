#include "dtune/space/axis.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr int kDigits = 12;

bool is_discrete(const Parameter& p) {
  return p.kind != ParameterKind::real || p.quantum > 0;
}

bool is_listed(const Parameter& p) {
  return p.kind == ParameterKind::categorical ||
         p.kind == ParameterKind::boolean;
}

// Distance of neighbouring values of an integer or quantised parameter.
double spacing(const Parameter& p) { return p.quantum > 0 ? p.quantum : 1; }

uint64_t lattice_count(const Parameter& p) {
  return uint64_t(std::llround((p.high - p.low) / spacing(p))) + 1;
}

// x as it is written with so many digits after the point, read again.
double printed(double x, std::chars_format format, int digits) {
  std::array<char, 512> text;  // enough for any double with 12 digits
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), x, format, digits)
          .ptr;
  double value = 0;
  std::from_chars(text.data(), end, value);
  return value;
}

// The nearest number with 12 digits, counted from the first digit of the value
// (log) or of the range. Idempotent, the same on every machine.
double round_digits(const Parameter& p, double x) {
  if (p.log) return printed(x, std::chars_format::scientific, kDigits - 1);
  const int exponent =
      static_cast<int>(std::ceil(std::log10(p.high - p.low))) - kDigits;
  if (exponent <= 0) return printed(x, std::chars_format::fixed, -exponent);
  const double unit = std::pow(10, exponent);
  return std::round(x / unit) * unit;
}

double rounded(const Parameter& p, double x) {
  return std::clamp(round_digits(p, x), p.low, p.high);
}

double lattice_value(const Parameter& p, uint64_t index) {
  const double x = p.low + static_cast<double>(index) * spacing(p);
  return p.kind == ParameterKind::integer ? x : rounded(p, x);
}

// Lower edge of a lattice cell in the parameter's own unit; the first cell of a
// coarse logarithmic lattice is cut before it reaches 0.
double lattice_edge(const Parameter& p, uint64_t index) {
  const double edge = p.low + (static_cast<double>(index) - 0.5) * spacing(p);
  return index == 0 && p.log ? std::max(edge, p.low / 2) : edge;
}

double log_edge_unit(const Parameter& p, uint64_t index) {
  const double first = std::log(lattice_edge(p, 0));
  const double last = std::log(lattice_edge(p, lattice_count(p)));
  return (std::log(lattice_edge(p, index)) - first) / (last - first);
}

Cell cell_of(const Parameter& p, uint64_t index) {
  if (!is_listed(p) && p.log) {
    return {log_edge_unit(p, index), log_edge_unit(p, index + 1)};
  }
  const double count = static_cast<double>(*value_count(p));
  return {static_cast<double>(index) / count,
          static_cast<double>(index + 1) / count};
}

uint64_t index_of_unit(const Parameter& p, double unit) {
  const uint64_t count = *value_count(p);
  double index = 0;
  if (!is_listed(p) && p.log) {
    const double first = std::log(lattice_edge(p, 0));
    const double last = std::log(lattice_edge(p, count));
    const double x = std::exp(first + unit * (last - first));
    index = (x - p.low) / spacing(p) + 0.5;
  } else {
    index = unit * static_cast<double>(count);
  }
  index = std::clamp(std::floor(index), 0.0, static_cast<double>(count - 1));
  return static_cast<uint64_t>(index);
}

uint64_t index_of_value(const Parameter& p, const Value& value) {
  if (p.kind == ParameterKind::boolean) return *as_number(value) != 0 ? 1 : 0;
  if (p.kind == ParameterKind::categorical) {
    const auto found = std::find(p.choices.begin(), p.choices.end(), value);
    return uint64_t(found - p.choices.begin());
  }
  const double steps = std::round((*as_number(value) - p.low) / spacing(p));
  return uint64_t(
      std::clamp(steps, 0.0, static_cast<double>(lattice_count(p) - 1)));
}

double encode_real(const Parameter& p, double x) {
  const double unit = p.log ? (std::log(x) - std::log(p.low)) /
                                  (std::log(p.high) - std::log(p.low))
                            : (x - p.low) / (p.high - p.low);
  return std::clamp(unit, 0.0, 1.0);
}

double decode_real(const Parameter& p, double unit) {
  if (unit <= 0) return p.low;
  if (unit >= 1) return p.high;
  if (!p.log) return rounded(p, p.low + unit * (p.high - p.low));
  const double low = std::log(p.low);
  return rounded(p, std::exp(low + unit * (std::log(p.high) - low)));
}

std::string join_choices(const Parameter& p) {
  std::string text;
  for (const Value& choice : p.choices) {
    text += (text.empty() ? "" : ", ") + to_string(choice);
  }
  return text;
}

std::string reason_number_invalid(const Parameter& p, double x) {
  if (!(x >= p.low && x <= p.high)) {
    return fmt::format("{} is outside [{}, {}]", x, p.low, p.high);
  }
  if (!is_discrete(p)) return "";
  const double nearest = nearest_value(p, x);
  if (x == nearest) return "";
  return fmt::format("{} is not {} + k {} (the nearest is {})", x, p.low,
                     spacing(p), nearest);
}

}  // namespace

double nearest_value(const Parameter& p, double x) {
  return lattice_value(p, index_of_value(p, Value(x)));
}

std::optional<uint64_t> value_count(const Parameter& p) {
  if (p.kind == ParameterKind::boolean) return 2;
  if (p.kind == ParameterKind::categorical) return p.choices.size();
  if (!is_discrete(p)) return std::nullopt;
  return lattice_count(p);
}

double encode_value(const Parameter& p, const Value& value) {
  if (!is_discrete(p)) return encode_real(p, *as_number(value));
  return cell_middle(p, index_of_value(p, value));
}

Value decode_value(const Parameter& p, double unit) {
  if (!is_discrete(p)) return decode_real(p, unit);
  const uint64_t index = index_of_unit(p, unit);
  if (p.kind == ParameterKind::boolean) return index == 1;
  if (p.kind == ParameterKind::categorical) return p.choices[index];
  const double x = lattice_value(p, index);
  if (p.kind == ParameterKind::integer) return static_cast<int64_t>(x);
  return x;
}

double cell_middle(const Parameter& p, uint64_t index) {
  const Cell cell = cell_of(p, index);
  return (cell.low + cell.high) / 2;
}

Cell cell_around(const Parameter& p, double unit) {
  return cell_of(p, index_of_unit(p, unit));
}

std::string reason_invalid(const Parameter& p, const Value& value) {
  switch (p.kind) {
    case ParameterKind::boolean:
      return std::holds_alternative<bool>(value)
                 ? ""
                 : fmt::format("'{}' is neither true nor false",
                               to_string(value));
    case ParameterKind::categorical:
      return std::find(p.choices.begin(), p.choices.end(), value) !=
                     p.choices.end()
                 ? ""
                 : fmt::format("'{}' is not one of {}", to_string(value),
                               join_choices(p));
    case ParameterKind::integer:
      if (!std::holds_alternative<int64_t>(value)) {
        return fmt::format("'{}' is not an integer", to_string(value));
      }
      break;
    case ParameterKind::real:
      if (!std::holds_alternative<double>(value)) {
        return fmt::format("'{}' is not a real number", to_string(value));
      }
      break;
  }
  return reason_number_invalid(p, *as_number(value));
}

}  // namespace dtune
