// The tables that patch_product.inc fills, one for each instruction set. On
// other processors than x86-64 all are compiled for what there is (base/cpu.h).
#pragma once

#include "dtune/surrogate/kernels/patch_product.h"

namespace dtune {

extern const PatchKernels kAvx512PatchKernels;
extern const PatchKernels kAvx2PatchKernels;
extern const PatchKernels kPortablePatchKernels;

}  // namespace dtune
