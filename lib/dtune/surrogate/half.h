// Numbers of 16 bits in the format binary16 of IEEE 754: half the bytes of a
// float, three significant digits, up to 65504.
#pragma once

#include <cstdint>

#include <Eigen/Core>

namespace dtune {

// The nearest half (ties to even); beyond the largest one infinity.
inline uint16_t half_from_float(float value) {
  return Eigen::numext::bit_cast<uint16_t>(Eigen::half(value));
}

// Exact.
inline float float_from_half(uint16_t half) {
  return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(half));
}

}  // namespace dtune
