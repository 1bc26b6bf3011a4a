#include "dtune/surrogate/kernels/patch_product_isa.h"

#define DTUNE_VECTOR_BYTES 32
#define DTUNE_COLUMNS 2
#include "dtune/surrogate/kernels/patch_product.inc"

namespace dtune {

const PatchKernels kAvx2PatchKernels = {"avx2", multiply, squash};

}  // namespace dtune
