#include "dtune/nn/kernels/conv_block_isa.h"

#define DTUNE_VECTOR_BYTES 64
#define DTUNE_TILES 7
#define DTUNE_COLUMNS 4
#include "dtune/nn/kernels/conv_block.inc"

namespace dtune {

const ConvKernels kAvx512ConvKernels = {
    "avx512",     narrow_forward,        narrow_backward,
    wide_forward, wide_backward_weights, wide_backward_input};

const ProductKernels kAvx512ProductKernels = {
    "avx512", product_transform_weights, product_forward, product_backward,
    product_weights_gradient};

const WinogradKernels kAvx512WinogradKernels = {"avx512",
                                                winograd_transform_weights,
                                                winograd_forward,
                                                winograd_backward_weights,
                                                winograd_weights_gradient,
                                                winograd_forward_once,
                                                winograd_gradient_once};

const NormKernels kAvx512NormKernels = {"avx512", norm_statistics, norm_apply,
                                        norm_gradient_sums,
                                        norm_input_gradient};

const ActivationKernels kAvx512ActivationKernels = {"avx512", tanh_values};

}  // namespace dtune
