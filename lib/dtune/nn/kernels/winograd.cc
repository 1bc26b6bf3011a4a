#include "dtune/nn/kernels/winograd.h"

#include <algorithm>

#include "dtune/base/cpu.h"
#include "dtune/nn/kernels/conv_block_isa.h"

namespace dtune {

std::vector<const WinogradKernels*> runnable_winograd_kernels() {
  return runnable_tables(&kAvx512WinogradKernels, &kAvx2WinogradKernels,
                         &kPortableWinogradKernels);
}

const WinogradKernels& winograd_kernels() {
  static const WinogradKernels& best = *runnable_winograd_kernels().front();
  return best;
}

int winograd4_tiles(const WinogradShape& shape) {
  // Half as much again as the second cache of common CPUs, in multiples of every
  // register block's rows (6 and 7): weights are fetched again for each such
  // number of tiles, which costs more than inputs and products do that are not
  // in that cache. Where the weights alone do not fit there, more tiles.
  constexpr int kScratchBytes = 1536 * 1024;
  constexpr int kStep = 42;
  if (int64_t{shape.channels} * shape.outputs >= 256 * 256) return 4 * kStep;
  const int bytes = 36 * 4 * (shape.channels + shape.outputs);
  return std::clamp(kScratchBytes / bytes / kStep, 1, 4) * kStep;
}

int64_t winograd4_scratch(const WinogradShape& shape) {
  const int64_t rows =
      winograd4_row(shape.channels) + winograd4_row(shape.outputs);
  return 36 * (winograd4_tiles(shape) * rows + 32) +
         6 * winograd4_band_row(shape) +
         36 * (kWinogradBlock * kWinogradBlock + 16);
}

}  // namespace dtune
