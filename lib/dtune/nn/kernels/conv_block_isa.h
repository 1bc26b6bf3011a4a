// The tables that conv_block.inc fills, one for each instruction set. On other
// processors than x86-64 all are compiled for what there is (base/cpu.h).
#pragma once

#include <type_traits>
#include <utility>

#include "dtune/nn/kernels/activation.h"
#include "dtune/nn/kernels/batch_norm.h"
#include "dtune/nn/kernels/conv_block.h"
#include "dtune/nn/kernels/pool.h"
#include "dtune/nn/kernels/product_conv.h"
#include "dtune/nn/kernels/winograd.h"

namespace dtune {

extern const ConvKernels kAvx512ConvKernels;
extern const ConvKernels kAvx2ConvKernels;
extern const ConvKernels kPortableConvKernels;

extern const ProductKernels kAvx512ProductKernels;
extern const ProductKernels kAvx2ProductKernels;
extern const ProductKernels kPortableProductKernels;

extern const WinogradKernels kAvx512WinogradKernels;
extern const WinogradKernels kAvx2WinogradKernels;
extern const WinogradKernels kPortableWinogradKernels;

extern const NormKernels kAvx512NormKernels;
extern const NormKernels kAvx2NormKernels;
extern const NormKernels kPortableNormKernels;

extern const PoolKernels kAvx512PoolKernels;
extern const PoolKernels kAvx2PoolKernels;
extern const PoolKernels kPortablePoolKernels;

extern const ActivationKernels kAvx512ActivationKernels;
extern const ActivationKernels kAvx2ActivationKernels;
extern const ActivationKernels kPortableActivationKernels;

}  // namespace dtune
