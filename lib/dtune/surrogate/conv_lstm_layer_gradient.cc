#include <algorithm>

#include "dtune/surrogate/conv_lstm_parts.h"
#include "dtune/surrogate/conv_lstm_volume.h"
#include "dtune/surrogate/kernels/patch_product.h"

namespace dtune {
namespace {

// The gradient of the gates before they are squashed, of one frame; dcell
// becomes that of the cell before the frame.
void cell_gradient(int hidden, const float* gates, const float* before,
                   const float* tanh_cell, const float* dh, float* dcell,
                   float* dgates) {
  for (int v = 0; v < kGridVoxels; ++v) {
    const float* i = gates + size_t{4} * v * hidden;
    const float* f = i + hidden;
    const float* o = f + hidden;
    const float* g = o + hidden;
    float* di = dgates + size_t{4} * v * hidden;
    float* df = di + hidden;
    float* dof = df + hidden;
    float* dg = dof + hidden;
    const size_t at = size_t{1} * v * hidden;
    for (int c = 0; c < hidden; ++c) {
      const float t = tanh_cell[at + c];
      const float dc = dcell[at + c] + dh[at + c] * o[c] * (1 - t * t);
      dof[c] = dh[at + c] * t * o[c] * (1 - o[c]);
      di[c] = dc * g[c] * i[c] * (1 - i[c]);
      df[c] = dc * before[at + c] * f[c] * (1 - f[c]);
      dg[c] = dc * i[c] * (1 - g[c] * g[c]);
      dcell[at + c] = dc * f[c];
    }
  }
}

// The weights with which the gradient of the gates, as a padded volume, is
// convolved to give that of channels `first` and up: taps mirrored, input and
// output exchanged. [27][gates][columns].
void mirror(const LayerSize& size, const float* convolution, int first,
            int columns, std::vector<float>& mirrored) {
  const int gates = size.gates();
  mirrored.resize(size_t{kTaps} * gates * columns);
  for (int k = 0; k < kTaps; ++k) {
    const int row = k * size.channels() + first;
    transpose(convolution + size_t{1} * row * gates, size.channels() - first,
              gates, columns,
              &mirrored[size_t{1} * (kTaps - 1 - k) * gates * columns]);
  }
}

// Channels whose gradient is wanted: all, or only those of h.
struct Wanted {
  int first;
  int count;
  int columns;  // count, rounded up
};

// Adds the gradient that comes through the pooled values, whose own gradient
// is `dpooled`, to dx [voxel][wanted.columns].
void pool_gradient(const LayerSize& size, const Wanted& wanted,
                   const float* dpooled, const int* peak, float* dx) {
  const float* dmean = dpooled + wanted.first;
  const float* dmaximum = dpooled + size.channels() + wanted.first;
  for (int v = 0; v < kGridVoxels; ++v) {
    float* x = dx + size_t{1} * v * wanted.columns;
    for (int c = 0; c < wanted.count; ++c) x[c] += dmean[c] / kGridVoxels;
  }
  for (int c = 0; c < wanted.count; ++c) {
    const size_t voxel = static_cast<size_t>(peak[wanted.first + c]);
    dx[voxel * wanted.columns + c] += dmaximum[c];
  }
}

// Copies columns [first, first + count) of dx to [voxel][count].
void take(const Wanted& wanted, const float* dx, int first, int count,
          float* to) {
  for (int v = 0; v < kGridVoxels; ++v) {
    std::copy_n(dx + size_t{1} * v * wanted.columns + first, count,
                to + size_t{1} * v * count);
  }
}

// What is the same for all frames.
struct Frames {
  PaddedVolume volume;       // of x and h
  PaddedVolume gate_volume;  // of the gates' gradient
  Wanted wanted;
  std::vector<float> pooled;  // its weights, transposed
};

Frames prepare(const LayerSize& size, const LayerWeights<const float>& weights,
               bool with_inputs, LayerScratch& scratch) {
  const int first = with_inputs ? 0 : size.inputs;
  const int count = size.channels() - first;
  const int pooled = 2 * size.channels();
  const int width = rounded_up(pooled);
  Frames frames = {PaddedVolume(size.channels()),
                   PaddedVolume(size.gates()),
                   {first, count, rounded_up(count)},
                   std::vector<float>(size_t{1} * size.gates() * width)};
  transpose(weights.pooled, pooled, size.gates(), width, frames.pooled.data());
  mirror(size, weights.convolution, first, frames.wanted.columns,
         scratch.mirrored);
  scratch.dgates.resize(size_t{kGridVoxels} * size.gates());
  scratch.padded.resize(frames.gate_volume.size());
  scratch.dx.resize(size_t{kGridVoxels} * frames.wanted.columns);
  return frames;
}

// From scratch.dgates of frame t: the weights' gradient; returns that of the
// pooled values.
std::vector<float> weights_gradient(const LayerSize& size, const Frames& frames,
                                    const LayerRun& run, size_t t,
                                    const LayerWeights<float>& gradient,
                                    const LayerScratch& scratch) {
  const int gates = size.gates();
  const int pooled = 2 * size.channels();
  const float* dgates = scratch.dgates.data();
  patch_kernels().multiply_transposed(
      frames.volume.patches(&run.padded[t * frames.volume.size()]), dgates,
      gates, gradient.convolution);
  std::vector<float> sums(static_cast<size_t>(gates));
  add_column_sums(dgates, kGridVoxels, gates, sums.data());
  add_column_sums(sums.data(), 1, gates, gradient.bias);
  linear_gradient(&run.pooled[t * pooled], 1, pooled, sums.data(), gates,
                  gradient.pooled);
  std::vector<float> dpooled(static_cast<size_t>(rounded_up(pooled)));
  linear(sums.data(), 1, gates, frames.pooled.data(), rounded_up(pooled),
         dpooled.data());
  return dpooled;
}

// From scratch.dgates: scratch.dx.
void state_gradient(const LayerSize& size, const Frames& frames,
                    const float* dpooled, const int* peak,
                    LayerScratch& scratch) {
  write_inside(frames.gate_volume, scratch.dgates.data(), size.gates(), 0,
               scratch.padded.data());
  std::fill(scratch.dx.begin(), scratch.dx.end(), 0.0F);
  patch_kernels().multiply(frames.gate_volume.patches(scratch.padded.data()),
                           scratch.mirrored.data(), frames.wanted.columns,
                           scratch.dx.data());
  pool_gradient(size, frames.wanted, dpooled, peak, scratch.dx.data());
}

}  // namespace

void layer_gradient(const LayerSize& size,
                    const LayerWeights<const float>& weights,
                    const LayerRun& run, std::span<float> dhidden,
                    const LayerWeights<float>& gradient,
                    std::span<float> dinputs, LayerScratch& scratch) {
  const Frames frames = prepare(size, weights, !dinputs.empty(), scratch);
  const size_t state = size_t{kGridVoxels} * size.hidden;
  std::vector<float> dcell(state);
  std::vector<float> dbefore(state);  // of h before the frame
  for (size_t t = kGridFrames; t-- > 0;) {
    float* dh = &dhidden[t * state];
    for (size_t i = 0; i < state; ++i) dh[i] += dbefore[i];
    cell_gradient(size.hidden, &run.gates[t * 4 * state], &run.cell[t * state],
                  &run.tanh_cell[t * state], dh, dcell.data(),
                  scratch.dgates.data());
    const std::vector<float> dpooled =
        weights_gradient(size, frames, run, t, gradient, scratch);
    state_gradient(size, frames, dpooled.data(), &run.peak[t * size.channels()],
                   scratch);
    take(frames.wanted, scratch.dx.data(), size.inputs - frames.wanted.first,
         size.hidden, dbefore.data());
    if (!dinputs.empty()) {
      take(frames.wanted, scratch.dx.data(), 0, size.inputs,
           &dinputs[t * kGridVoxels * size.inputs]);
    }
  }
}

}  // namespace dtune
