// Activations on the CPU that LibTorch computes with fewer lanes than the CPU
// has. No LibTorch here; one source for all instruction sets, as in
// conv_block.h.
#pragma once

#include <cstdint>
#include <vector>

namespace dtune {

struct ActivationKernels {
  const char* name;

  // y = tanh(x), to a few units in the last place; NaN passes. x may be y.
  void (*tanh)(int64_t count, const float* x, float* y);
};

// Of the CPU that runs this. Thread-safe.
const ActivationKernels& activation_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const ActivationKernels*> runnable_activation_kernels();

}  // namespace dtune
