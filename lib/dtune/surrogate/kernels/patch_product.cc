#include "dtune/surrogate/kernels/patch_product.h"

#include "dtune/base/cpu.h"
#include "dtune/surrogate/kernels/patch_product_isa.h"

namespace dtune {

std::vector<const PatchKernels*> runnable_patch_kernels() {
  return runnable_tables(&kAvx512PatchKernels, &kAvx2PatchKernels,
                         &kPortablePatchKernels);
}

const PatchKernels& patch_kernels() {
  static const PatchKernels& best = *runnable_patch_kernels().front();
  return best;
}

}  // namespace dtune
