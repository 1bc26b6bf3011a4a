// Numbers that the CPU makes for a device.
#pragma once

#include <ATen/ATen.h>

namespace dtune {

// On the CPU, to be filled and sent to the device by send(): a GPU copies it
// from pinned memory and is not waited for.
inline at::Tensor host_tensor(at::IntArrayRef sizes, at::ScalarType type,
                              const at::Device& device) {
  return at::empty(sizes,
                   at::TensorOptions(type).pinned_memory(device.is_cuda()));
}

inline at::Tensor send(const at::Tensor& host, const at::Device& device) {
  return host.to(at::TensorOptions(device), /*non_blocking=*/true);
}

}  // namespace dtune
