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
std::vector<float> mirrored(const LayerSize& size, const float* convolution,
                            int first, int columns) {
  const int gates = size.gates();
  std::vector<float> result;
  result.reserve(size_t{kTaps} * gates * columns);
  for (int k = kTaps - 1; k >= 0; --k) {
    const int row = k * size.channels() + first;
    const std::vector<float> tap =
        transposed(convolution + size_t{1} * row * gates,
                   size.channels() - first, gates, columns);
    result.insert(result.end(), tap.begin(), tap.end());
  }
  return result;
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

// What is allocated once for all frames.
struct Scratch {
  PaddedVolume volume;       // of x and h
  PaddedVolume gate_volume;  // of the gates' gradient
  Wanted wanted;
  std::vector<float> mirrored;
  std::vector<float> pooled;  // its weights, transposed
  std::vector<float> dgates;
  std::vector<float> padded;
  std::vector<float> dx;
};

Scratch make_scratch(const LayerSize& size,
                     const LayerWeights<const float>& weights,
                     bool with_inputs) {
  const int first = with_inputs ? 0 : size.inputs;
  const int count = size.channels() - first;
  const Wanted wanted = {first, count, rounded_up(count)};
  const PaddedVolume gate_volume(size.gates());
  const int pooled = 2 * size.channels();
  return {PaddedVolume(size.channels()),
          gate_volume,
          wanted,
          mirrored(size, weights.convolution, first, wanted.columns),
          transposed(weights.pooled, pooled, size.gates(), rounded_up(pooled)),
          std::vector<float>(size_t{kGridVoxels} * size.gates()),
          std::vector<float>(gate_volume.size()),
          std::vector<float>(size_t{kGridVoxels} * wanted.columns)};
}

// From scratch.dgates of frame t: the weights' gradient, and that of x and h.
void gates_gradient(const LayerSize& size, const LayerRun& run, size_t t,
                    const LayerWeights<float>& gradient, Scratch& scratch) {
  const PatchKernels& kernels = patch_kernels();
  const int gates = size.gates();
  const int pooled = 2 * size.channels();
  const float* dgates = scratch.dgates.data();
  kernels.multiply_transposed(
      scratch.volume.patches(&run.padded[t * scratch.volume.size()]), dgates,
      gates, gradient.convolution);
  std::vector<float> sums(static_cast<size_t>(gates));
  add_column_sums(dgates, kGridVoxels, gates, sums.data());
  add_column_sums(sums.data(), 1, gates, gradient.bias);
  linear_gradient(&run.pooled[t * pooled], 1, pooled, sums.data(), gates,
                  gradient.pooled);
  std::vector<float> dpooled(static_cast<size_t>(rounded_up(pooled)));
  linear(sums.data(), 1, gates, scratch.pooled.data(), rounded_up(pooled),
         dpooled.data());

  write_inside(scratch.gate_volume, dgates, gates, 0, scratch.padded.data());
  std::fill(scratch.dx.begin(), scratch.dx.end(), 0.0F);
  kernels.multiply(scratch.gate_volume.patches(scratch.padded.data()),
                   scratch.mirrored.data(), scratch.wanted.columns,
                   scratch.dx.data());
  pool_gradient(size, scratch.wanted, dpooled.data(),
                &run.peak[t * size.channels()], scratch.dx.data());
}

}  // namespace

void layer_gradient(const LayerSize& size,
                    const LayerWeights<const float>& weights,
                    const LayerRun& run, std::span<float> dhidden,
                    const LayerWeights<float>& gradient,
                    std::span<float> dinputs) {
  Scratch scratch = make_scratch(size, weights, !dinputs.empty());
  const size_t state = size_t{kGridVoxels} * size.hidden;
  std::vector<float> dcell(state);
  std::vector<float> dbefore(state);  // of h before the frame
  for (size_t t = kGridFrames; t-- > 0;) {
    float* dh = &dhidden[t * state];
    for (size_t i = 0; i < state; ++i) dh[i] += dbefore[i];
    cell_gradient(size.hidden, &run.gates[t * 4 * state], &run.cell[t * state],
                  &run.tanh_cell[t * state], dh, dcell.data(),
                  scratch.dgates.data());
    gates_gradient(size, run, t, gradient, scratch);
    take(scratch.wanted, scratch.dx.data(), size.inputs - scratch.wanted.first,
         size.hidden, dbefore.data());
    if (!dinputs.empty()) {
      take(scratch.wanted, scratch.dx.data(), 0, size.inputs,
           &dinputs[t * kGridVoxels * size.inputs]);
    }
  }
}

}  // namespace dtune
