// For callers of kernels/cuda, in builds that have them.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace dtune {

// The tensor's device for this thread while it lives, and its stream.
class OnDeviceOf {
 public:
  explicit OnDeviceOf(const at::Tensor& tensor) : guard_(tensor.device()) {}
  void* stream() const {
    return c10::cuda::getCurrentCUDAStream(guard_.current_device().index())
        .stream();
  }

 private:
  c10::cuda::CUDAGuard guard_;
};

}  // namespace dtune
