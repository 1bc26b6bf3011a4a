#include "dtune/nn/kernels/conv_block_isa.h"

#define DTUNE_VECTOR_BYTES 16
#define DTUNE_TILES 6
#define DTUNE_COLUMNS 2
#define DTUNE_ISA "portable"
#define DTUNE_TABLE(kind) kPortable##kind##Kernels
#include "dtune/nn/kernels/conv_block.inc"
