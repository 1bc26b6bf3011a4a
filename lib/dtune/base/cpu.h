// What the CPU that runs the program can do, for kernels that are compiled for
// several instruction sets.
#pragma once

namespace dtune {

// False on other processors than x86-64. The sets are those of the compiler
// flags DTUNE_AVX2_FLAGS and DTUNE_AVX512_FLAGS.
bool cpu_has_avx2();
bool cpu_has_avx512();

}  // namespace dtune
