// The parts of conv_lstm.h: features, layers, head. Internal to the network.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/correction.h"

namespace dtune {

inline constexpr int kGridPlaces = kGridFrames * kGridVoxels;
inline constexpr int kTaps = 27;  // of a 3x3x3 convolution

// Inside of the network voxels are [dropout][lr][l2], l2 fastest, in all arrays
// of this file: neighbours along the longest lines then share the taps that lie
// outside of the grid, which the kernels leave out.
struct Voxel {
  int lr;
  int l2;
  int dropout;
};

inline Voxel voxel_at(int voxel) {
  return {voxel / kGridL2 % kGridLr, voxel % kGridL2,
          voxel / (kGridL2 * kGridLr)};
}

// Where [frame][voxel] of the network is in a study's vectors.
inline size_t study_place(int place) {
  const Voxel at = voxel_at(place % kGridVoxels);
  const int in_frame = (at.lr * kGridL2 + at.l2) * kGridDropout + at.dropout;
  const int frame = place / kGridVoxels;
  return size_t{kGridVoxels} * frame + in_frame;
}

// ---- Features. ----

inline constexpr int kFeatures = 12;

// [frame][voxel][feature], scaled to about 1 and clipped, so that no study is
// outside of what the network can have seen; what is not finite is 0:
//   0  (mean - best) / (2 scale) in [-6, 6]
//   1  ln(deviation / scale) / 2 in [-4, 4]
//   2  seen in [0, 1]
//   3  seen (value - best) / (2 scale) in [-6, 6]
//   4  pending in [0, 1]
//   5  (ln deviation + 3) / 2 in [-4, 4]
//   6  2 (mean - best), metric units, in [-4, 4]
//   7, 8, 9  lr, l2, dropout in [-1, 1]
//  10  frame in [-1, 1]
//  11  ln(1 + sum of seen) / 3 in [0, 4]
std::vector<float> input_features(const GridFeatures& study);

// Throws Error(config) where it is out of its bounds.
void check_shape(const ConvLstmShape& shape);

// ---- Weights: tensors of one vector, in the file's order. ----

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // last one fastest
  size_t offset;
  size_t size;
};

// layer1, layer2: .convolution [3, 3, 3, C, 4 H] of C = inputs + H channels
// (taps in the order lr, l2, dropout), .pooled [2 C, 4 H] (means, then
// maxima), .bias [4 H]; gates in the order i, f, o, g;
// head: .hidden [4 H + features, W], .hidden_bias, .output [W, 9],
// .output_bias.
std::vector<TensorSpec> tensor_specs(const ConvLstmShape& shape);

// Views of them.
struct LayerWeights {
  const float* convolution;
  const float* pooled;
  const float* bias;
};

struct HeadWeights {
  const float* hidden;
  const float* hidden_bias;
  const float* output;
  const float* output_bias;
};

struct NetworkWeights {
  std::array<LayerWeights, 2> layer;
  HeadWeights head;
};

NetworkWeights weights_of(const ConvLstmShape& shape, const float* parameters);

// ---- One layer over all frames. ----

struct LayerSize {
  int inputs;
  int hidden;

  int channels() const { return inputs + hidden; }
  int gates() const { return 4 * hidden; }
};

// The output, and buffers of the frame that is computed.
struct LayerRun {
  std::vector<float> padded;     // [padded voxel][x, previous h]
  std::vector<float> pooled;     // [means, maxima of x, h]
  std::vector<float> gates;      // [voxel][i, f, o, g]
  std::vector<float> cell;       // [voxel][h]
  std::vector<float> tanh_cell;  // [voxel][h]
  std::vector<float> hidden;     // [frame][voxel][h]: the layer's output
};

// inputs: [frame][voxel][size.inputs].
// The buffers are made when they are empty, and used again otherwise: fresh
// memory would cost as much time as the products.
void run_layer(const LayerSize& size, const LayerWeights& weights,
               std::span<const float> inputs, LayerRun& run);

// ---- Head. ----

inline constexpr int kOutputs = 3 * kMixtureParts;
inline constexpr int kOutputColumns = 16;  // kOutputs, filled up with zeros

struct HeadRun {
  std::vector<float> inputs;   // [place][h1_T, h2_T, h1_t, h2_t, features_t]
  std::vector<float> hidden;   // [place][W]
  std::vector<float> outputs;  // [place][kOutputColumns]
};

// Buffers as in run_layer.
void run_head(const ConvLstmShape& shape, const HeadWeights& weights,
              const LayerRun& first, const LayerRun& second,
              std::span<const float> features, HeadRun& run);

// Nine numbers as a mixture: logits, shifts, log scales. With
// bound(x, b) = b tanh(x / b):
//   weight = softmax(ln kHeavyTails.weight + bound(logit, 8))
//   shift = bound(x, 6),   scale = kHeavyTails.scale exp(bound(x, 3))
Correction mixture_of(const float* outputs);
inline constexpr double kLogitBound = 8;
inline constexpr double kShiftBound = 6;
inline constexpr double kLogScaleBound = 3;

}  // namespace dtune
