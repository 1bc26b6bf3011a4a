#include "dtune/surrogate/kernels/patch_product_isa.h"

#define DTUNE_VECTOR_BYTES 64
#define DTUNE_COLUMNS 4
#include "dtune/surrogate/kernels/patch_product.inc"

namespace dtune {

const PatchKernels kAvx512PatchKernels = {"avx512", multiply, squash};

}  // namespace dtune
