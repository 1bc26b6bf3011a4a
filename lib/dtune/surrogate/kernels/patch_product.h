// Matrix products over patches of a padded volume: what a convolution and a
// plain linear map have in common. No library is called; the
// table is filled by one source file compiled for several instruction sets, and
// the best that the CPU has is chosen when the program runs.
//
// Results differ between instruction sets in rounding only (fused products,
// order of vectors' lanes does not matter: every output has its own sum).
#pragma once

#include <cstdint>
#include <vector>

namespace dtune {

// The matrix A [rows, taps * channels],
//   A[r, k * channels + c] = data[where[r] + tap[k] + c],
// which is never written. A plain matrix has one tap, {0}.
//
// Taps that lie in the zero frame may be left out: bit k of inside[r] says that
// tap k of row r need be looked at. Null: all are. REQUIRES: taps <= 32.
struct Patches {
  const float* data;
  const int32_t* where;
  int rows;
  const int32_t* tap;
  int taps;
  int channels;
  const uint32_t* inside = nullptr;
};

// Columns and counts are multiples of kColumnBlock; nothing needs alignment.
inline constexpr int kColumnBlock = 16;

struct PatchKernels {
  const char* name;

  // y [rows, columns] += A weights [taps * channels, columns].
  void (*multiply)(const Patches& patches, const float* weights, int columns,
                   float* y);
  // x [rows, columns] = s tanh(s x) + 1 - s with a slope s for each column:
  // tanh where s = 1, the logistic function where s = 1/2. Error < 3e-7; NaN
  // stays NaN.
  void (*squash)(int rows, int columns, const float* slope, float* x);
};

// Of the CPU that runs this. Thread-safe.
const PatchKernels& patch_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const PatchKernels*> runnable_patch_kernels();

}  // namespace dtune
