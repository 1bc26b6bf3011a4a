#include "dtune/nn/kernels/conv_block_isa.h"

#define DTUNE_VECTOR_BYTES 64
#define DTUNE_TILES 7
#define DTUNE_COLUMNS 4
#define DTUNE_ISA "avx512"
#define DTUNE_TABLE(kind) kAvx512##kind##Kernels
#include "dtune/nn/kernels/conv_block.inc"
