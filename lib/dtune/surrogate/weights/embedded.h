// The bytes of the shipped files of weights, aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <span>

namespace dtune {

std::span<const std::byte> embedded_prior();
std::span<const std::byte> embedded_cnn_prior();
std::span<const std::byte> embedded_network();
std::span<const std::byte> embedded_cnn_network();

}  // namespace dtune
