#include "dtune/nn/kernels/conv_block_isa.h"

#define DTUNE_VECTOR_BYTES 32
#define DTUNE_TILES 6
#define DTUNE_COLUMNS 2
#include "dtune/nn/kernels/conv_block.inc"

namespace dtune {

const ConvKernels kAvx2ConvKernels = {
    "avx2",       narrow_forward,        narrow_backward,
    wide_forward, wide_backward_weights, wide_backward_input};

}  // namespace dtune
