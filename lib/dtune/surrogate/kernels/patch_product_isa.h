// The tables that patch_product.inc fills, one for each instruction set.
#pragma once

#include "dtune/surrogate/kernels/patch_product.h"

namespace dtune {

extern const PatchKernels kAvx512PatchKernels;    // x86-64 only
extern const PatchKernels kAvx2PatchKernels;      // x86-64 only
extern const PatchKernels kPortablePatchKernels;  // any architecture

}  // namespace dtune
