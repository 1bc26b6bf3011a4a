#include "dtune/surrogate/kernels/patch_product.h"

#include "dtune/base/cpu.h"
#include "dtune/surrogate/kernels/patch_product_isa.h"

namespace dtune {
std::vector<const PatchKernels*> runnable_patch_kernels() {
  std::vector<const PatchKernels*> runnable;
#if defined(__x86_64__)
  if (cpu_has_avx512()) runnable.push_back(&kAvx512PatchKernels);
  if (cpu_has_avx2()) runnable.push_back(&kAvx2PatchKernels);
#endif
  runnable.push_back(&kPortablePatchKernels);
  return runnable;
}

const PatchKernels& patch_kernels() {
  static const PatchKernels& best = *runnable_patch_kernels().front();
  return best;
}

}  // namespace dtune
