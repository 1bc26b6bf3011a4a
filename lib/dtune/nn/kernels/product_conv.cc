#include "dtune/nn/kernels/product_conv.h"

#include <algorithm>

#include "dtune/base/cpu.h"
#include "dtune/nn/kernels/conv_block_isa.h"

namespace dtune {
namespace {

// A multiple of every register block's rows (6 and 7).
constexpr int kRowStep = 42;

int rows_that_fit(int bytes, int columns, int least) {
  return std::clamp(bytes / 4 / columns / kRowStep, least, 6) * kRowStep;
}

}  // namespace

std::vector<const ProductKernels*> runnable_product_kernels() {
  return runnable_tables(&kAvx512ProductKernels, &kAvx2ProductKernels,
                         &kPortableProductKernels);
}

const ProductKernels& product_kernels() {
  static const ProductKernels& best = *runnable_product_kernels().front();
  return best;
}

int product_rows(const ProductShape& shape) {
  return rows_that_fit(512 * 1024, shape.taps() * shape.channels, 1);
}

// Never few: each block reads and writes the gradient of all weights.
int product_rows_backward(const ProductShape& shape) {
  const int columns = shape.tap_group() * shape.channels + shape.outputs;
  return rows_that_fit(768 * 1024, columns, 3);
}

int64_t product_scratch(const ProductShape& shape) {
  const int64_t forward = int64_t{product_rows(shape)} *
                          product_pitch(shape.taps() * shape.channels);
  const int64_t backward = int64_t{2 * product_rows_backward(shape)} *
                           product_pitch(shape.tap_group() * shape.channels);
  return std::max(forward, backward);
}

}  // namespace dtune
