#include "dtune/nn/kernels/conv_block_isa.h"

#define DTUNE_VECTOR_BYTES 32
#define DTUNE_TILES 6
#define DTUNE_COLUMNS 2
#define DTUNE_ISA "avx2"
#define DTUNE_TABLE(kind) kAvx2##kind##Kernels
#include "dtune/nn/kernels/conv_block.inc"
