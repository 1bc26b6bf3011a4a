// The bytes of the shipped weights of the speed predictor, aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <span>

namespace dtune {

std::span<const std::byte> embedded_speed_weights();

}  // namespace dtune
