// The zero frame around the grid: where voxels and taps lie in it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dtune/surrogate/conv_lstm_parts.h"
#include "dtune/surrogate/kernels/patch_product.h"

namespace dtune {

inline constexpr int kPaddedL2 = kGridL2 + 2;
inline constexpr int kPaddedDropout = kGridDropout + 2;
inline constexpr int kPaddedVoxels = (kGridLr + 2) * kPaddedL2 * kPaddedDropout;

// Offsets in padded volumes of `channels` floats a voxel.
struct PaddedVolume {
  explicit PaddedVolume(int channel_count);

  // Rows: the patches around the grid's voxels in the volume at `data`.
  Patches patches(const float* data) const {
    return {data,  corner.data(), kGridVoxels,  tap.data(),
            kTaps, channels,      needed.data()};
  }
  // The first float of a voxel.
  int inside(int voxel) const { return corner[voxel] + tap[kTaps / 2]; }
  size_t size() const { return size_t{kPaddedVoxels} * channels; }

  int channels;
  std::array<int32_t, kGridVoxels> corner;   // of the voxel's patch
  std::array<uint32_t, kGridVoxels> needed;  // taps outside of the frame, bits
  std::array<int32_t, kTaps> tap;            // from the corner
};

// Copies [voxel][count] to channels `first`, ... of a padded volume.
void write_inside(const PaddedVolume& volume, const float* values, int count,
                  int first, float* padded);

// y [rows, columns] += x [rows, inputs] w [inputs, columns].
// REQUIRES: columns is a multiple of kColumnBlock.
void linear(const float* x, int rows, int inputs, const float* w, int columns,
            float* y);

}  // namespace dtune
