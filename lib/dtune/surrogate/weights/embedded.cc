// The assembler reads the files: arrays of a million numbers in C++ take a
// compiler minutes.
#include "dtune/surrogate/weights/embedded.h"

// clang-format off
// NOLINTBEGIN: symbols of the assembler
#define DTUNE_EMBED(symbol, file)                    \
  asm(".section .rodata\n"                           \
      ".balign 64\n"                                 \
      ".hidden " #symbol "_begin\n"                  \
      ".hidden " #symbol "_end\n"                    \
      ".global " #symbol "_begin\n"                  \
      ".global " #symbol "_end\n"                    \
      #symbol "_begin:\n"                            \
      ".incbin \"" DTUNE_WEIGHTS_DIR "/" file "\"\n" \
      #symbol "_end:\n"                              \
      ".byte 0\n"                                    \
      ".text\n");                                    \
  extern "C" const std::byte symbol##_begin[];       \
  extern "C" const std::byte symbol##_end[]

DTUNE_EMBED(dtune_weights_prior, "prior.safetensors");
DTUNE_EMBED(dtune_weights_network, "network.safetensors");
// NOLINTEND
// clang-format on

namespace dtune {

std::span<const std::byte> embedded_prior() {
  return {dtune_weights_prior_begin, dtune_weights_prior_end};
}

std::span<const std::byte> embedded_network() {
  return {dtune_weights_network_begin, dtune_weights_network_end};
}

}  // namespace dtune
