#include "dtune/surrogate/kernels/patch_product.h"

#include "dtune/surrogate/kernels/patch_product_isa.h"

namespace dtune {
namespace {

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

}  // namespace

std::vector<const PatchKernels*> runnable_patch_kernels() {
  std::vector<const PatchKernels*> runnable;
#if defined(__x86_64__)
  if (has_avx512()) runnable.push_back(&kAvx512PatchKernels);
  if (has_avx2()) runnable.push_back(&kAvx2PatchKernels);
#endif
  runnable.push_back(&kPortablePatchKernels);
  return runnable;
}

const PatchKernels& patch_kernels() {
  static const PatchKernels& best = *runnable_patch_kernels().front();
  return best;
}

}  // namespace dtune
