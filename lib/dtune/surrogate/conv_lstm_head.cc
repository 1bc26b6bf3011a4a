#include <algorithm>

#include "dtune/surrogate/conv_lstm_parts.h"
#include "dtune/surrogate/conv_lstm_volume.h"
#include "dtune/surrogate/kernels/patch_product.h"

namespace dtune {
namespace {

int head_inputs(const ConvLstmShape& shape) {
  return 4 * shape.hidden + kFeatures;
}

// [place][h1_T, h2_T, h1_t, h2_t, features_t]
void gather_inputs(const ConvLstmShape& shape, const LayerRun& first,
                   const LayerRun& second, std::span<const float> features,
                   std::vector<float>& inputs) {
  const size_t hidden = static_cast<size_t>(shape.hidden);
  const size_t last = size_t{kGridFrames - 1} * kGridVoxels;
  inputs.resize(size_t{kGridPlaces} * head_inputs(shape));
  float* to = inputs.data();
  for (size_t i = 0; i < kGridPlaces; ++i) {
    const size_t final_place = last + i % kGridVoxels;
    to = std::copy_n(&first.hidden[final_place * hidden], hidden, to);
    to = std::copy_n(&second.hidden[final_place * hidden], hidden, to);
    to = std::copy_n(&first.hidden[i * hidden], hidden, to);
    to = std::copy_n(&second.hidden[i * hidden], hidden, to);
    to = std::copy_n(&features[i * kFeatures], kFeatures, to);
  }
}

void repeat_row(const float* row, int columns, std::vector<float>& to) {
  for (size_t i = 0; i < to.size(); i += static_cast<size_t>(columns)) {
    std::copy_n(row, columns, &to[i]);
  }
}

}  // namespace

void run_head(const ConvLstmShape& shape, const HeadWeights& weights,
              const LayerRun& first, const LayerRun& second,
              std::span<const float> features, HeadRun& run) {
  gather_inputs(shape, first, second, features, run.inputs);
  run.hidden.resize(size_t{kGridPlaces} * shape.head);
  repeat_row(weights.hidden_bias, shape.head, run.hidden);
  linear(run.inputs.data(), kGridPlaces, head_inputs(shape), weights.hidden,
         shape.head, run.hidden.data());
  const std::vector<float> ones(static_cast<size_t>(shape.head), 1.0F);
  patch_kernels().squash(kGridPlaces, shape.head, ones.data(),
                         run.hidden.data());

  float bias[kOutputColumns] = {};
  std::copy_n(weights.output_bias, kOutputs, bias);
  std::vector<float> output(size_t{1} * shape.head * kOutputColumns);
  for (int i = 0; i < shape.head; ++i) {
    std::copy_n(weights.output + size_t{1} * i * kOutputs, kOutputs,
                &output[size_t{1} * i * kOutputColumns]);
  }
  run.outputs.resize(size_t{kGridPlaces} * kOutputColumns);
  repeat_row(bias, kOutputColumns, run.outputs);
  linear(run.hidden.data(), kGridPlaces, shape.head, output.data(),
         kOutputColumns, run.outputs.data());
}

}  // namespace dtune
