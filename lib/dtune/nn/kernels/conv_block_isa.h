// The tables that conv_block.inc fills, one for each instruction set. On other
// processors than x86-64 all are compiled for what there is (base/cpu.h).
#pragma once

#include "dtune/nn/kernels/conv_block.h"

namespace dtune {

extern const ConvKernels kAvx512ConvKernels;
extern const ConvKernels kAvx2ConvKernels;
extern const ConvKernels kPortableConvKernels;

}  // namespace dtune
