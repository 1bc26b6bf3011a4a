// Numbers of 16 bits in the format binary16 of IEEE 754: half the bytes of a
// float, three significant digits, up to 65504.
#pragma once

#include <cstdint>

namespace dtune {

// The nearest half (ties to even); beyond the largest one infinity.
uint16_t half_from_float(float value);
// Exact.
float float_from_half(uint16_t half);

}  // namespace dtune
