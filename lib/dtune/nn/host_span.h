// The elements of a tensor on the host, as a span.
#pragma once

#include <span>

#include <ATen/ATen.h>

namespace dtune {

// Empty for an undefined tensor. The span refers to the tensor's memory.
// REQUIRES: float32, contiguous, on the CPU.
inline std::span<float> floats(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace dtune
