// Round trips over many random spaces and points, all from fixed seeds.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/space/axis.h"
#include "dtune/space/search_space.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

// A bound with few digits, as people write them.
double written(Rng& rng, int low_exponent, int high_exponent) {
  const double digits = 1 + double(rng.below(999)) / 100;
  const int exponent =
      low_exponent + int(rng.below(uint64_t(high_exponent - low_exponent + 1)));
  return std::stod(fmt::format("{}e{}", digits, exponent));
}

Parameter random_real(Rng& rng) {
  Parameter p;
  p.log = rng.below(2) == 0;
  p.low = written(rng, -8, 3);
  if (!p.log && rng.below(2) == 0) p.low = -p.low;
  if (p.log) {
    p.high = p.low * written(rng, 1, 6);
  } else if (rng.below(3) == 0) {
    p.quantum = written(rng, -3, 1);
    p.high = p.low + p.quantum * double(1 + rng.below(1000));
  } else {
    p.high = p.low + written(rng, -4, 5);
  }
  return p;
}

Parameter random_integer(Rng& rng) {
  Parameter p;
  p.kind = ParameterKind::integer;
  p.log = rng.below(2) == 0;
  p.low = double(rng.below(1000)) + (p.log ? 1 : -500);
  p.quantum = rng.below(2) == 0 ? 0 : double(1 + rng.below(64));
  const double count = std::floor(std::pow(10, rng.uniform(0.31, 8)));
  p.high = p.low + count * std::max(1.0, p.quantum);
  return p;
}

Parameter random_words(Rng& rng) {
  Parameter p;
  p.kind = ParameterKind::categorical;
  for (uint64_t i = 0, n = 1 + rng.below(40); i < n; ++i) {
    switch (rng.below(4)) {
      case 0:
        p.choices.emplace_back(fmt::format("w{}", i));
        break;
      case 1:
        p.choices.emplace_back(int64_t(i));
        break;
      default:
        p.choices.emplace_back(double(i) + 0.5);
    }
  }
  return p;
}

Parameter random_parameter(Rng& rng, size_t index) {
  Parameter p;
  switch (rng.below(4)) {
    case 0:
      p = random_real(rng);
      break;
    case 1:
      p = random_integer(rng);
      break;
    case 2:
      p = random_words(rng);
      break;
    default:
      p.kind = ParameterKind::boolean;
  }
  p.name = fmt::format("p{}", index);
  return p;
}

// Some parameters depend on an earlier or a later boolean.
SearchSpace random_space(Rng& rng) {
  std::vector<Parameter> parameters;
  for (size_t i = 0, n = 1 + rng.below(8); i < n; ++i) {
    parameters.push_back(random_parameter(rng, i));
    if (rng.below(3) == 0) parameters.back().when = "switch";
  }
  Parameter gate;
  gate.name = "switch";
  gate.kind = ParameterKind::boolean;
  parameters.insert(
      parameters.begin() + std::ptrdiff_t(rng.below(parameters.size() + 1)),
      gate);
  return SearchSpace(std::move(parameters));
}

std::vector<double> random_unit(Rng& rng, size_t dimensions) {
  std::vector<double> unit(dimensions);
  for (double& u : unit) {
    const uint64_t kind = rng.below(10);
    u = kind == 0 ? 0 : kind == 1 ? 1 : rng.uniform();
  }
  return unit;
}

}  // namespace

TEST_CASE("every decoded point is valid and comes back from its code") {
  Rng rng(2026);
  for (int s = 0; s < 500; ++s) {
    const SearchSpace space = random_space(rng);
    for (int i = 0; i < 40; ++i) {
      const auto unit = random_unit(rng, space.dimensions());
      const Point point = space.decode(unit);
      REQUIRE(space.reason_invalid(point) == "");
      const auto code = space.encode(point);
      for (const double u : code) {
        REQUIRE(u >= 0);
        REQUIRE(u <= 1);
      }
      REQUIRE(space.decode(code) == point);
      REQUIRE(space.encode(space.decode(code)) == code);
    }
  }
}

TEST_CASE("every value of a discrete parameter comes back from its code") {
  Rng rng(7);
  for (int s = 0; s < 300; ++s) {
    Parameter p = random_parameter(rng, 0);
    check_parameter(p);
    const auto count = value_count(p);
    if (!count) continue;
    for (uint64_t i = 0; i < *count; i += 1 + *count / 200) {
      const double middle = cell_middle(p, i);
      const Value value = decode_value(p, middle);
      REQUIRE(reason_invalid(p, value) == "");
      REQUIRE(encode_value(p, value) == middle);
      const Cell cell = cell_around(p, middle);
      REQUIRE(cell.low < middle);
      REQUIRE(middle < cell.high);
    }
    REQUIRE(decode_value(p, cell_middle(p, *count - 1)) == decode_value(p, 1));
  }
}

TEST_CASE("reals that people write come back exactly, others to 12 digits") {
  Rng rng(11);
  for (int s = 0; s < 2000; ++s) {
    Parameter p = random_real(rng);
    p.name = "x";
    if (p.quantum > 0) continue;
    check_parameter(p);
    const double x = std::get<double>(decode_value(p, rng.uniform()));
    const double some =
        std::clamp(x * (1 + 1e-7 * rng.uniform()), p.low, p.high);
    const double back =
        std::get<double>(decode_value(p, encode_value(p, Value(some))));
    const double unit_of_error = p.log ? some : p.high - p.low;
    REQUIRE(std::abs(back - some) <= 6e-12 * unit_of_error);
    const double few =
        std::clamp(std::stod(fmt::format("{:.5g}", x)), p.low, p.high);
    // Five digits of x may be finer than twelve of a wide linear range.
    if (!p.log && std::abs(few) < 1e-6 * (p.high - p.low)) continue;
    REQUIRE(std::get<double>(decode_value(p, encode_value(p, Value(few)))) ==
            few);
  }
}

TEST_CASE("decoding keeps the order of coordinates") {
  Rng rng(13);
  for (int s = 0; s < 500; ++s) {
    Parameter p = rng.below(2) == 0 ? random_real(rng) : random_integer(rng);
    p.name = "x";
    check_parameter(p);
    const double a = rng.uniform();
    const double b = rng.uniform();
    const double low = *as_number(decode_value(p, std::min(a, b)));
    const double high = *as_number(decode_value(p, std::max(a, b)));
    REQUIRE(low <= high);
    REQUIRE(p.low <= low);
    REQUIRE(high <= p.high);
  }
}
