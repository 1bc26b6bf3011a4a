// Memory that the layers of a network use one after the other: nothing in it
// outlives a call of forward or backward.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace dtune {

struct Workspace {
  struct Worker {  // of a thread
    at::Tensor scratch;
    at::Tensor dtransformed;
    // Of a chain, what a convolution reads, the gradient of its result and that
    // of what it reads.
    at::Tensor input;
    at::Tensor gradient;
    at::Tensor dinput;
  };
  at::Tensor transformed;  // weights
  std::vector<Worker> workers;
};

// `slot` with room for so many floats, which are not set.
inline float* room_for(at::Tensor& slot, int64_t floats) {
  if (!slot.defined() || slot.numel() < floats) {
    slot = at::Tensor();  // first free, then allocate
    slot = at::empty({floats}, at::kFloat);
  }
  return slot.data_ptr<float>();
}

}  // namespace dtune
