#include "dtune/nn/kernels/product_conv.h"

#include <algorithm>

#include "dtune/base/cpu.h"
#include "dtune/nn/kernels/conv_block_isa.h"

namespace dtune {
namespace {

// A multiple of every register block's rows (6 and 7) and of twice of them.
constexpr int kRowStep = 42;
static_assert(kProductRowsForward % kRowStep == 0);
static_assert(kProductRowsBackward % kRowStep == 0);
// Columns of the widest panel of any instruction set.
constexpr int kWidestPanel = 64;

}  // namespace

std::vector<const ProductKernels*> runnable_product_kernels() {
  return runnable_tables(&kAvx512ProductKernels, &kAvx2ProductKernels,
                         &kPortableProductKernels);
}

const ProductKernels& product_kernels() {
  static const ProductKernels& best = *runnable_product_kernels().front();
  return best;
}

int64_t ProductShape::transformed_size() const {
  const int depth = std::max(taps() * channels, outputs);
  return factors_size(weights_size()) +
         (strassen ? int64_t{2} * depth * kWidestPanel : 0);
}

// Its sums take time by the rows, the sums of weights by their number.
bool product_by_quarters(const ProductShape& shape, int64_t rows) {
  const int columns = shape.tap_group() * shape.channels;
  return shape.has_quarters() && std::min(columns, shape.outputs) >= 128 &&
         rows >= 1024;
}

int product_rows(const ProductShape& shape) {
  constexpr int kFloats = 512 * 1024 / 4;
  const int depth = shape.taps() * shape.channels;
  constexpr int kMostSteps = kProductRowsForward / kRowStep;
  return std::clamp(kFloats / depth / kRowStep, 1, kMostSteps) * kRowStep;
}

int64_t product_scratch(const ProductShape& shape) {
  const int64_t rows = product_rows(shape);
  const int64_t rows_back = kProductRowsBackward;
  const int depth = shape.taps() * shape.channels;
  const int columns = shape.tap_group() * shape.channels;
  int64_t forward = rows * product_pitch(depth);
  int64_t backward = 2 * rows_back * product_pitch(columns);
  if (shape.strassen) {
    forward +=
        2 * rows * product_pitch(depth / 2) + 7 * rows / 2 * kWidestPanel;
    backward += 2 * rows_back * product_pitch(shape.outputs / 2) +
                7 * rows_back / 2 * kWidestPanel;
  }
  return std::max(forward, backward);
}

}  // namespace dtune
