#include "dtune/surrogate/half.h"

#include <cmath>

#include <doctest/doctest.h>

using namespace dtune;

TEST_CASE("every half is itself after a round trip through a float") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_half(static_cast<uint16_t>(bits));
    const uint16_t again = half_from_float(value);
    if (std::isnan(value)) {
      CHECK(std::isnan(float_from_half(again)));
    } else {
      REQUIRE(again == bits);
    }
  }
}

TEST_CASE("floats become the nearest half, ties the even one") {
  CHECK(half_from_float(1.0F) == 0x3C00);
  CHECK(half_from_float(-2.0F) == 0xC000);
  CHECK(half_from_float(65504.0F) == 0x7BFF);
  CHECK(half_from_float(65519.9F) == 0x7BFF);
  CHECK(half_from_float(65520.0F) == 0x7C00);
  CHECK(half_from_float(1.0F + 0x1p-11F) == 0x3C00);
  CHECK(half_from_float(1.0F + 3 * 0x1p-11F) == 0x3C02);
  CHECK(half_from_float(0x1p-24F) == 0x0001);
  CHECK(half_from_float(0x1p-26F) == 0x0000);
  CHECK(half_from_float(INFINITY) == 0x7C00);
  for (float value = 1e-3F; value < 1e4F; value *= 1.37F) {
    const float near = float_from_half(half_from_float(value));
    CHECK(std::abs(near - value) <= value * 0x1p-11F);
  }
}
