#include "dtune/surrogate/kernels/patch_product_isa.h"

#define DTUNE_VECTOR_BYTES 16
#define DTUNE_COLUMNS 2
#include "dtune/surrogate/kernels/patch_product.inc"

namespace dtune {

const PatchKernels kPortablePatchKernels = {"portable", multiply, squash};

}  // namespace dtune
