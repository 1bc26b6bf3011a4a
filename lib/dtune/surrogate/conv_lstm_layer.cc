#include <algorithm>

#include "dtune/surrogate/conv_lstm_parts.h"
#include "dtune/surrogate/conv_lstm_volume.h"
#include "dtune/surrogate/kernels/patch_product.h"

namespace dtune {
namespace {

// Mean and maximum of every channel over all voxels.
void pool(const PaddedVolume& volume, const float* padded, float* pooled) {
  const int channels = volume.channels;
  float* maximum = pooled + channels;
  std::fill_n(pooled, channels, 0.0F);
  std::copy_n(padded + volume.inside(0), channels, maximum);
  for (int v = 0; v < kGridVoxels; ++v) {
    const float* x = padded + volume.inside(v);
    for (int c = 0; c < channels; ++c) {
      pooled[c] += x[c];
      maximum[c] = std::max(maximum[c], x[c]);
    }
  }
  for (int c = 0; c < channels; ++c) pooled[c] /= kGridVoxels;
}

// i, f, o are logistic functions, g is a tanh.
std::vector<float> gate_slopes(int hidden) {
  std::vector<float> slope(size_t{4} * hidden, 0.5F);
  std::fill(slope.end() - hidden, slope.end(), 1.0F);
  return slope;
}

// Gates of one frame from its padded volume.
void run_gates(const LayerSize& size, const LayerWeights& weights,
               const PaddedVolume& volume, const float* padded,
               const float* pooled, float* gates) {
  const int n = size.gates();
  std::copy_n(weights.bias, n, gates);
  linear(pooled, 1, 2 * size.channels(), weights.pooled, n, gates);
  for (int v = 1; v < kGridVoxels; ++v) {
    std::copy_n(gates, n, gates + size_t{1} * v * n);
  }
  const PatchKernels& kernels = patch_kernels();
  kernels.multiply(volume.patches(padded), weights.convolution, n, gates);
  kernels.squash(kGridVoxels, n, gate_slopes(size.hidden).data(), gates);
}

// c = f c + i g; h = o tanh c.
void run_cell(int hidden, const float* gates, float* cell, float* tanh_cell,
              float* h) {
  for (int v = 0; v < kGridVoxels; ++v) {
    const float* i = gates + size_t{4} * v * hidden;
    const float* f = i + hidden;
    const float* g = f + size_t{2} * hidden;
    const size_t at = size_t{1} * v * hidden;
    for (int c = 0; c < hidden; ++c) {
      cell[at + c] = f[c] * cell[at + c] + i[c] * g[c];
    }
  }
  // All voxels as rows of one column block each.
  constexpr int kRows = kGridVoxels / 8;
  const int columns = 8 * hidden;
  const std::vector<float> ones(static_cast<size_t>(columns), 1.0F);
  std::copy_n(cell, size_t{kGridVoxels} * hidden, tanh_cell);
  patch_kernels().squash(kRows, columns, ones.data(), tanh_cell);
  for (int v = 0; v < kGridVoxels; ++v) {
    const float* o = gates + (size_t{4} * v + 2) * hidden;
    const size_t at = size_t{1} * v * hidden;
    for (int c = 0; c < hidden; ++c) h[at + c] = o[c] * tanh_cell[at + c];
  }
}

void make_buffers(const LayerSize& size, const PaddedVolume& volume,
                  LayerRun& run) {
  const size_t state = size_t{kGridVoxels} * size.hidden;
  run.padded.assign(volume.size(), 0.0F);
  run.pooled.resize(size_t{2} * size.channels());
  run.gates.resize(4 * state);
  run.cell.assign(state, 0.0F);
  run.tanh_cell.resize(state);
  run.hidden.resize(kGridFrames * state);
}

}  // namespace

void run_layer(const LayerSize& size, const LayerWeights& weights,
               std::span<const float> inputs, LayerRun& run) {
  const PaddedVolume volume(size.channels());
  const size_t state = size_t{kGridVoxels} * size.hidden;
  make_buffers(size, volume, run);
  for (size_t t = 0; t < kGridFrames; ++t) {
    write_inside(volume, &inputs[t * kGridVoxels * size.inputs], size.inputs, 0,
                 run.padded.data());
    if (t > 0) {
      write_inside(volume, &run.hidden[(t - 1) * state], size.hidden,
                   size.inputs, run.padded.data());
    }
    pool(volume, run.padded.data(), run.pooled.data());
    run_gates(size, weights, volume, run.padded.data(), run.pooled.data(),
              run.gates.data());
    run_cell(size.hidden, run.gates.data(), run.cell.data(),
             run.tanh_cell.data(), &run.hidden[t * state]);
  }
}

}  // namespace dtune
