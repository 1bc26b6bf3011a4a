#include "dtune/nn/kernels/conv_block.h"

#include <algorithm>
#include <cstring>

#include "dtune/base/cpu.h"
#include "dtune/nn/kernels/conv_block_isa.h"

namespace dtune {
namespace {

// G g G^T of one 3x3 filter.
void transform_filter(const float* g, float* to, int64_t step) {
  float half[4][3];
  for (int j = 0; j < 3; ++j) {
    const float sum = g[j] + g[6 + j];
    half[0][j] = g[j];
    half[1][j] = 0.5F * (sum + g[3 + j]);
    half[2][j] = 0.5F * (sum - g[3 + j]);
    half[3][j] = g[6 + j];
  }
  for (int64_t i = 0; i < 4; ++i) {
    const float sum = half[i][0] + half[i][2];
    to[4 * i * step] = half[i][0];
    to[(4 * i + 1) * step] = 0.5F * (sum + half[i][1]);
    to[(4 * i + 2) * step] = 0.5F * (sum - half[i][1]);
    to[(4 * i + 3) * step] = half[i][2];
  }
}

constexpr size_t kPlaneBytes = 16 * sizeof(float);

// One row of an image into a plane's row: pixels of `lanes` floats each.
void copy_row(const float* from, float* to, const BlockShape& shape) {
  if (shape.narrow()) {
    std::copy_n(from, shape.width * shape.channels, to);
    return;
  }
  for (int c = 0; c < shape.width; ++c) {
    std::memcpy(to, from, kPlaneBytes);
    from += shape.channels;
    to += 16;
  }
}

void copy_row_back(const float* from, float* to, const BlockShape& shape) {
  if (shape.narrow()) {
    std::copy_n(from, shape.width * shape.channels, to);
    return;
  }
  for (int c = 0; c < shape.width; ++c) {
    std::memcpy(to, from, kPlaneBytes);
    from += 16;
    to += shape.channels;
  }
}

}  // namespace

std::vector<const ConvKernels*> runnable_conv_kernels() {
  return runnable_tables(&kAvx512ConvKernels, &kAvx2ConvKernels,
                         &kPortableConvKernels);
}

const ConvKernels& conv_kernels() {
  static const ConvKernels& best = *runnable_conv_kernels().front();
  return best;
}

int winograd_tiles(const BlockShape& shape) {
  // Half of the second cache of common CPUs; a multiple of every register
  // block's rows (6 and 7).
  constexpr int kScratchBytes = 512 * 1024;
  const int bytes = 16 * 4 * (shape.channels + shape.outputs);
  return std::max(1, kScratchBytes / bytes / 42) * 42;
}

int64_t winograd_scratch(const BlockShape& shape) {
  // 16 floats more a matrix keep powers of two out of the strides.
  const int64_t tiles = winograd_tiles(shape);
  return 16 * (tiles * (shape.channels + shape.outputs) + 32);
}

void winograd_weights(const BlockShape& shape, const float* weights,
                      float* transformed) {
  // Sixteen filters at a time: writing each by itself would touch sixteen
  // places a power of two apart, which the first cache keeps only eight of.
  constexpr int kFilters = 16;
  float block[16][kFilters];
  const int64_t step = int64_t{shape.channels} * shape.outputs;
  for (int c = 0; c < shape.channels; ++c) {
    for (int o = 0; o < shape.outputs; o += kFilters) {
      for (int i = 0; i < kFilters; ++i) {
        const int64_t filter = int64_t{o + i} * shape.channels + c;
        transform_filter(weights + 9 * filter, &block[0][i], kFilters);
      }
      float* to = transformed + int64_t{c} * shape.outputs + o;
      for (int i = 0; i < 16; ++i) {
        std::memcpy(to + i * step, block[i], sizeof(block[i]));
      }
    }
  }
}

void pad_image(const BlockShape& shape, const float* x, float* padded) {
  const int lanes = shape.lanes();
  const int64_t row = int64_t{shape.width} * shape.channels;
  for (int first = 0; first < shape.channels; first += lanes) {
    for (int r = 0; r < shape.height; ++r) {
      float* to = padded + int64_t{r + 1} * shape.padded_row() + lanes;
      copy_row(x + r * row + first, to, shape);
    }
    padded += shape.plane_size();
  }
}

void unpad_image(const BlockShape& shape, const float* padded, float* x) {
  const int lanes = shape.lanes();
  const int64_t row = int64_t{shape.width} * shape.channels;
  for (int first = 0; first < shape.channels; first += lanes) {
    for (int r = 0; r < shape.height; ++r) {
      const float* from = padded + int64_t{r + 1} * shape.padded_row() + lanes;
      copy_row_back(from, x + r * row + first, shape);
    }
    padded += shape.plane_size();
  }
}

void find_actives(const BlockShape& shape, const float* dy,
                  const uint8_t* choice, Active* actives, int* counts,
                  float* dbias) {
  const int across = shape.width / 2;
  const int row = shape.padded_row();
  // The patch of a tile's output i starts this far from the tile's first.
  const int lanes = shape.lanes();
  const int32_t shift[5] = {0, lanes, row, row + lanes, 0};
  for (int o = 0; o < shape.outputs; ++o) {
    float sum = 0;
    int count = 0;
    const float* gradient = dy + o;
    const uint8_t* where = choice + o;
    for (int r = 0; r < shape.height / 2; ++r) {
      int32_t patch = 2 * r * row;
      for (int c = 0; c < across; ++c) {
        // Written always, kept only if alive: no branch to mispredict.
        const bool alive = *where != kDead;
        actives[count] = {patch + shift[*where], *gradient};
        sum += alive ? *gradient : 0.0F;
        count += alive ? 1 : 0;
        patch += 2 * lanes;
        gradient += shape.outputs;
        where += shape.outputs;
      }
    }
    counts[o] = count;
    dbias[o] += sum;
    actives += shape.tiles();
  }
}

void expand_gradient(const BlockShape& shape, const float* dy,
                     const uint8_t* choice, float* dense) {
  const int64_t row = int64_t{shape.width} * shape.outputs;
  std::fill_n(dense, row * shape.height, 0.0F);
  for (int r = 0; r < shape.height; r += 2) {
    for (int c = 0; c < shape.width; c += 2) {
      float* tile = dense + r * row + int64_t{c} * shape.outputs;
      for (int o = 0; o < shape.outputs; ++o, ++dy, ++choice) {
        if (*choice == kDead) continue;
        const int column = *choice % 2 * shape.outputs;
        tile[*choice / 2 * row + column + o] = *dy;
      }
    }
  }
}

}  // namespace dtune
