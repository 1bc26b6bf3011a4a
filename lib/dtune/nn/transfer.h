// Numbers that the CPU makes for a device.
#pragma once

#include <ATen/ATen.h>

#include "dtune/base/error.h"

namespace dtune {

// While one lives, its thread sends nothing to a device: work that is recorded
// (train/step_graph.h) would read the same bytes at each repetition.
class NoTransfers {
 public:
  NoTransfers() { ++depth_; }
  ~NoTransfers() { --depth_; }
  NoTransfers(const NoTransfers&) = delete;
  NoTransfers& operator=(const NoTransfers&) = delete;

  static bool any() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

// On the CPU, to be filled and sent to the device by send(): a GPU copies it
// from pinned memory and is not waited for. REQUIRES: !NoTransfers::any().
inline at::Tensor host_tensor(at::IntArrayRef sizes, at::ScalarType type,
                              const at::Device& device) {
  DTUNE_CHECK(!NoTransfers::any());
  return at::empty(sizes,
                   at::TensorOptions(type).pinned_memory(device.is_cuda()));
}

// REQUIRES: !NoTransfers::any().
inline at::Tensor send(const at::Tensor& host, const at::Device& device) {
  DTUNE_CHECK(!NoTransfers::any());
  return host.to(at::TensorOptions(device), /*non_blocking=*/true);
}

}  // namespace dtune
