#include "dtune/base/half.h"

#include <bit>
#include <cmath>

namespace dtune {
namespace {

constexpr uint32_t kInfinity = 0x7C00;
constexpr float kSmallestStep = 0x1p-24F;  // between subnormal halves

}  // namespace

uint16_t half_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const float size = std::abs(value);
  uint32_t half = 0;
  if (std::isnan(value)) {
    half = kInfinity | 0x200U;
  } else if (size >= 65520.0F) {  // half-way to the half that there is not
    half = kInfinity;
  } else if (size < 0x1p-14F) {
    half = static_cast<uint32_t>(std::nearbyint(size / kSmallestStep));
  } else {
    // Exponents differ by 127 - 15; the 13 lower bits of the fraction go.
    const uint32_t rest = std::bit_cast<uint32_t>(size) - (112U << 23);
    half = (rest + 0xFFFU + ((rest >> 13) & 1U)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

float float_from_half(uint16_t half) {
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  float size = 0;
  if (exponent == 0x1F) {
    size = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    size = static_cast<float>(fraction) * kSmallestStep;
  } else {
    size = std::bit_cast<float>(((exponent + 112U) << 23) | (fraction << 13));
  }
  return (half & 0x8000U) != 0 ? -size : size;
}

}  // namespace dtune
