#include "dtune/nn/kernels/pool.h"

#include "dtune/base/cpu.h"
#include "dtune/nn/kernels/conv_block_isa.h"

namespace dtune {

std::vector<const PoolKernels*> runnable_pool_kernels() {
  return runnable_tables(&kAvx512PoolKernels, &kAvx2PoolKernels,
                         &kPortablePoolKernels);
}

const PoolKernels& pool_kernels() {
  static const PoolKernels& best = *runnable_pool_kernels().front();
  return best;
}

}  // namespace dtune
