#include "dtune/nn/kernels/conv_block_isa.h"

#define DTUNE_VECTOR_BYTES 64
#define DTUNE_TILES 7
#define DTUNE_COLUMNS 4
#include "dtune/nn/kernels/conv_block.inc"

namespace dtune {

const ConvKernels kAvx512ConvKernels = {
    "avx512",     narrow_forward,        narrow_backward,
    wide_forward, wide_backward_weights, wide_backward_input};

}  // namespace dtune
