#include "dtune/nn/kernels/conv_block_isa.h"

#define DTUNE_VECTOR_BYTES 16
#define DTUNE_TILES 6
#define DTUNE_COLUMNS 2
#include "dtune/nn/kernels/conv_block.inc"

namespace dtune {

const ConvKernels kPortableConvKernels = {
    "portable",   narrow_forward,        narrow_backward,
    wide_forward, wide_backward_weights, wide_backward_input};

const ProductKernels kPortableProductKernels = {
    "portable", product_transform_weights, product_forward, product_backward,
    product_weights_gradient};

const WinogradKernels kPortableWinogradKernels = {"portable",
                                                  winograd_transform_weights,
                                                  winograd_forward,
                                                  winograd_backward_weights,
                                                  winograd_weights_gradient,
                                                  winograd_forward_once,
                                                  winograd_gradient_once};

const NormKernels kPortableNormKernels = {"portable", norm_statistics,
                                          norm_apply, norm_gradient_sums,
                                          norm_input_gradient};

const ActivationKernels kPortableActivationKernels = {"portable", tanh_values};

}  // namespace dtune
