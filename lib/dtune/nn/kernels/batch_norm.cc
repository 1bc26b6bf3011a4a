#include "dtune/nn/kernels/batch_norm.h"

#include "dtune/base/cpu.h"
#include "dtune/nn/kernels/conv_block_isa.h"

namespace dtune {

std::vector<const NormKernels*> runnable_norm_kernels() {
  return runnable_tables(&kAvx512NormKernels, &kAvx2NormKernels,
                         &kPortableNormKernels);
}

const NormKernels& norm_kernels() {
  static const NormKernels& best = *runnable_norm_kernels().front();
  return best;
}

}  // namespace dtune
