// The tables that conv_block.inc fills, one for each instruction set.
#pragma once

#include "dtune/nn/kernels/conv_block.h"

namespace dtune {

extern const ConvKernels kAvx512ConvKernels;    // x86-64 only
extern const ConvKernels kAvx2ConvKernels;      // x86-64 only
extern const ConvKernels kPortableConvKernels;  // any architecture

}  // namespace dtune
