// One parameter by itself: its check, and its map to [0, 1] and back as
// space/search_space.h describes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dtune/space/search_space.h"

namespace dtune {

// Throws Error(config), "space.<name>: ...". Brings `prior` into the type of
// the parameter (1 -> 1.0 for a real).
void check_parameter(Parameter& parameter);

// Number of distinct values; empty for reals without a quantum. At most 2^40.
std::optional<uint64_t> value_count(const Parameter& parameter);

// REQUIRES: reason_invalid(parameter, value) is "".
double encode_value(const Parameter& parameter, const Value& value);
// REQUIRES: 0 <= unit <= 1.
Value decode_value(const Parameter& parameter, double unit);

// The value that is next to x. REQUIRES: a number with a quantum, x is finite.
double nearest_value(const Parameter& parameter, double x);

// The middle of the cell of the value with this index, as encode_value gives.
// REQUIRES: the parameter is discrete, index < value_count.
double cell_middle(const Parameter& parameter, uint64_t index);

// Edges of the cell that holds `unit`; REQUIRES: discrete, 0 <= unit <= 1.
struct Cell {
  double low = 0;
  double high = 1;
};
Cell cell_around(const Parameter& parameter, double unit);

// Why a value is not one of the parameter's, without the name; "" if it is.
std::string reason_invalid(const Parameter& parameter, const Value& value);

}  // namespace dtune
