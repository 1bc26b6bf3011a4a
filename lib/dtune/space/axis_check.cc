// What makes a parameter's own fields wrong.
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr double kMaxCount = 0x1p40;
constexpr double kMaxInteger = 0x1p53;

[[noreturn]] void fail(const Parameter& p, const std::string& what) {
  throw Error(ErrorKind::config, fmt::format("space.{}: {}", p.name, what));
}

void check_name(const Parameter& p) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  bool good = !p.name.empty() && !(p.name[0] >= '0' && p.name[0] <= '9') &&
              p.name[0] != '.' && p.name[0] != '-';
  for (const char c : p.name) good = good && allowed(c);
  for (const char* reserved : {"and", "or", "not", "in", "true", "false"}) {
    good = good && p.name != reserved;
  }
  if (!good) {
    fail(p,
         "is not a valid name (use letters, digits, '_', '.' and '-', and "
         "start with "
         "a letter)");
  }
}

void check_range(const Parameter& p) {
  if (!std::isfinite(p.low) || !std::isfinite(p.high) ||
      !std::isfinite(p.high - p.low)) {
    fail(p, fmt::format("the range [{}, {}] is not finite", p.low, p.high));
  }
  if (p.low > p.high) {
    fail(p, fmt::format("the range [{}, {}] is reversed (write [{}, {}])",
                        p.low, p.high, p.high, p.low));
  }
  if (p.low == p.high) {
    fail(p, fmt::format("the range [{}, {}] holds one value (write '{}: {}')",
                        p.low, p.high, p.name, p.low));
  }
  if (p.log && p.low <= 0) {
    fail(p, fmt::format("a log range cannot touch 0, and starts at {} (use a "
                        "small positive number such as 1e-6, or linear)",
                        p.low));
  }
}

void check_integer_range(const Parameter& p) {
  for (const double bound : {p.low, p.high}) {
    if (bound != std::floor(bound) || std::abs(bound) > kMaxInteger) {
      fail(p,
           fmt::format(
               "{} is not a valid bound for integers (use whole numbers below "
               "2^53)",
               bound));
    }
  }
  if (p.quantum != 0 && p.quantum != std::floor(p.quantum)) {
    fail(p, fmt::format("the step {} of integers is not a whole number",
                        p.quantum));
  }
}

void check_lattice(const Parameter& p) {
  if (!std::isfinite(p.quantum) || p.quantum < 0) {
    fail(p, fmt::format("the step {} is not positive", p.quantum));
  }
  if (p.kind == ParameterKind::real && p.quantum == 0) return;
  const double spacing = p.quantum > 0 ? p.quantum : 1;
  const double steps = (p.high - p.low) / spacing;
  if (steps > kMaxCount) {
    fail(p, "has more than 2^40 values (use a larger step or a real)");
  }
  const double below = p.low + std::floor(steps + 1e-9) * spacing;
  if (std::abs(steps - std::round(steps)) > 1e-9) {
    fail(p, fmt::format("{} is not {} + k {} (use {:.12g} or {:.12g} as the "
                        "upper bound)",
                        p.high, p.low, spacing, below, below + spacing));
  }
}

void check_choices(const Parameter& p) {
  if (p.choices.empty()) fail(p, "has no choices (list at least two)");
  for (size_t i = 0; i < p.choices.size(); ++i) {
    const double* real = std::get_if<double>(&p.choices[i]);
    if (real != nullptr && !std::isfinite(*real)) {
      fail(p, "a choice is not finite");
    }
    for (size_t k = 0; k < i; ++k) {
      if (to_string(p.choices[i]) == to_string(p.choices[k])) {
        fail(p, fmt::format("the choice '{}' is listed twice",
                            to_string(p.choices[i])));
      }
    }
  }
}

// Reads 1 as 1.0, and 32.0 as 32, where the parameter needs it.
void adapt_prior(Parameter& p) {
  if (p.kind == ParameterKind::real) {
    if (const auto* integer = std::get_if<int64_t>(&*p.prior)) {
      p.prior = static_cast<double>(*integer);
    }
  } else if (p.kind == ParameterKind::integer) {
    const auto* real = std::get_if<double>(&*p.prior);
    if (real != nullptr && std::abs(*real) < kMaxInteger &&
        *real == std::floor(*real)) {
      p.prior = static_cast<int64_t>(*real);
    }
  }
}

}  // namespace

void check_parameter(Parameter& p) {
  check_name(p);
  if (p.kind == ParameterKind::categorical) {
    check_choices(p);
  } else if (p.kind != ParameterKind::boolean) {
    check_range(p);
    if (p.kind == ParameterKind::integer) check_integer_range(p);
    check_lattice(p);
  }
  if (!p.prior) return;
  adapt_prior(p);
  const std::string reason = reason_invalid(p, *p.prior);
  if (!reason.empty()) fail(p, "the prior " + reason);
}

}  // namespace dtune
