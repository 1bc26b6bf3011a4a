// The assembler reads the file, as in surrogate/weights.
#include "dtune/speed/weights/embedded.h"

// clang-format off
// NOLINTBEGIN: symbols of the assembler
asm(".section .rodata\n"
    ".balign 64\n"
    ".hidden dtune_weights_speeds_begin\n"
    ".hidden dtune_weights_speeds_end\n"
    ".global dtune_weights_speeds_begin\n"
    ".global dtune_weights_speeds_end\n"
    "dtune_weights_speeds_begin:\n"
    ".incbin \"" DTUNE_WEIGHTS_DIR "/speeds.safetensors\"\n"
    "dtune_weights_speeds_end:\n"
    ".byte 0\n"
    ".text\n");
extern "C" const std::byte dtune_weights_speeds_begin[];
extern "C" const std::byte dtune_weights_speeds_end[];
// NOLINTEND
// clang-format on

namespace dtune {

std::span<const std::byte> embedded_speed_weights() {
  return {dtune_weights_speeds_begin, dtune_weights_speeds_end};
}

}  // namespace dtune
