// What the CPU that runs the program can do, for kernels that are compiled for
// several instruction sets.
#pragma once

#include <vector>

namespace dtune {

// False on other processors than x86-64. The sets are those of the compiler
// flags DTUNE_AVX2_FLAGS and DTUNE_AVX512_FLAGS.
bool cpu_has_avx2();
bool cpu_has_avx512();

// Of tables of kernels, one for each instruction set: all that this CPU can
// run, the best first; the last one runs anywhere.
template <class Table>
std::vector<const Table*> runnable_tables(const Table* avx512,
                                          const Table* avx2,
                                          const Table* portable) {
  std::vector<const Table*> runnable;
  if (cpu_has_avx512()) runnable.push_back(avx512);
  if (cpu_has_avx2()) runnable.push_back(avx2);
  runnable.push_back(portable);
  return runnable;
}

}  // namespace dtune
