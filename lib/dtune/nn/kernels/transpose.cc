#include "dtune/nn/kernels/transpose.h"

#include <algorithm>
#include <cstdint>

namespace dtune {

// By bands of columns, so that the rows being written stay in the first cache.
void transpose(const float* from, int rows, int columns, float* to) {
  constexpr int kBand = 16;
  for (int first = 0; first < columns; first += kBand) {
    const int last = std::min(first + kBand, columns);
    for (int r = 0; r < rows; ++r) {
      const float* row = from + int64_t{r} * columns;
      for (int c = first; c < last; ++c) {
        to[int64_t{c} * rows + r] = row[c];
      }
    }
  }
}

}  // namespace dtune
