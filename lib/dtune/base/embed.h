// Files compiled into the program: the assembler reads them, since arrays of a
// million numbers in C++ take a compiler minutes.
#pragma once

#include <cstddef>
#include <span>

// Defines `symbol`_begin and `symbol`_end around the bytes of a file, aligned to
// 64 bytes, with one zero byte behind. At global scope, with string literals;
// the file's path has to be among the source's OBJECT_DEPENDS.
// clang-format off
// NOLINTBEGIN: symbols of the assembler
#define DTUNE_EMBED(symbol, file)                \
  asm(".section .rodata\n"                       \
      ".balign 64\n"                             \
      ".hidden " #symbol "_begin\n"              \
      ".hidden " #symbol "_end\n"                \
      ".global " #symbol "_begin\n"              \
      ".global " #symbol "_end\n"                \
      #symbol "_begin:\n"                        \
      ".incbin \"" file "\"\n"                   \
      #symbol "_end:\n"                          \
      ".byte 0\n"                                \
      ".text\n");                                \
  extern "C" const std::byte symbol##_begin[];   \
  extern "C" const std::byte symbol##_end[]
// NOLINTEND
// clang-format on

// The bytes between them.
#define DTUNE_EMBEDDED(symbol) \
  std::span<const std::byte> { symbol##_begin, symbol##_end }
