#include "dtune/surrogate/conv_lstm_volume.h"

#include <algorithm>

namespace dtune {
namespace {

int padded_offset(int lr, int l2, int dropout) {
  return (lr * kPaddedL2 + l2) * kPaddedDropout + dropout;
}

// Of a place along one axis of a padded volume.
bool is_inside(int padded, int size) { return padded >= 1 && padded <= size; }

std::vector<int32_t> row_starts(int rows, int inputs) {
  std::vector<int32_t> where(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) where[r] = r * inputs;
  return where;
}

constexpr int32_t kOneTap = 0;

}  // namespace

PaddedVolume::PaddedVolume(int channel_count)
    : channels(channel_count), corner(), needed(), tap() {
  for (int v = 0; v < kGridVoxels; ++v) {
    const Voxel at = voxel_at(v);
    corner[v] = channels * padded_offset(at.lr, at.l2, at.dropout);
    for (int k = 0; k < kTaps; ++k) {
      const bool hit = is_inside(at.lr + k / 9, kGridLr) &&
                       is_inside(at.l2 + k / 3 % 3, kGridL2) &&
                       is_inside(at.dropout + k % 3, kGridDropout);
      if (hit) needed[v] |= uint32_t{1} << k;
    }
  }
  for (int k = 0; k < kTaps; ++k) {
    tap[k] = channels * padded_offset(k / 9, k / 3 % 3, k % 3);
  }
}

void write_inside(const PaddedVolume& volume, const float* values, int count,
                  int first, float* padded) {
  for (int v = 0; v < kGridVoxels; ++v) {
    std::copy_n(values + size_t{1} * v * count, count,
                padded + volume.inside(v) + first);
  }
}

void linear(const float* x, int rows, int inputs, const float* w, int columns,
            float* y) {
  const std::vector<int32_t> where = row_starts(rows, inputs);
  patch_kernels().multiply({x, where.data(), rows, &kOneTap, 1, inputs}, w,
                           columns, y);
}

}  // namespace dtune
