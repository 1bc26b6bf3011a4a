#include "dtune/nn/kernels/activation.h"

#include "dtune/base/cpu.h"
#include "dtune/nn/kernels/conv_block_isa.h"

namespace dtune {

std::vector<const ActivationKernels*> runnable_activation_kernels() {
  return runnable_tables(&kAvx512ActivationKernels, &kAvx2ActivationKernels,
                         &kPortableActivationKernels);
}

const ActivationKernels& activation_kernels() {
  static const ActivationKernels& best = *runnable_activation_kernels().front();
  return best;
}

}  // namespace dtune
