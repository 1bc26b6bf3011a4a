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

void add_to(const float* from, int count, float* to) {
  for (int c = 0; c < count; ++c) to[c] += from[c];
}

// The reverse of gather_inputs: dinputs [place][stride].
void spread_gradient(int hidden, const std::vector<float>& dinputs,
                     size_t stride, std::span<float> dhidden1,
                     std::span<float> dhidden2) {
  const size_t last = size_t{kGridFrames - 1} * kGridVoxels;
  std::fill(dhidden1.begin(), dhidden1.end(), 0.0F);
  std::fill(dhidden2.begin(), dhidden2.end(), 0.0F);
  for (size_t i = 0; i < kGridPlaces; ++i) {
    const float* from = &dinputs[i * stride];
    const size_t final_at = (last + i % kGridVoxels) * hidden;
    add_to(from, hidden, &dhidden1[final_at]);
    add_to(from + hidden, hidden, &dhidden2[final_at]);
    add_to(from + size_t{2} * hidden, hidden, &dhidden1[i * hidden]);
    add_to(from + size_t{3} * hidden, hidden, &dhidden2[i * hidden]);
  }
}

// The last map, whose gradient comes with columns that are not weights.
void output_gradient(int head, const HeadRun& run,
                     std::span<const float> doutputs,
                     const HeadWeights<float>& gradient) {
  std::vector<float> doutput(size_t{1} * head * kOutputColumns);
  linear_gradient(run.hidden.data(), kGridPlaces, head, doutputs.data(),
                  kOutputColumns, doutput.data());
  for (int i = 0; i < head; ++i) {
    add_to(&doutput[size_t{1} * i * kOutputColumns], kOutputs,
           gradient.output + size_t{1} * i * kOutputs);
  }
  float dbias[kOutputColumns] = {};
  add_column_sums(doutputs.data(), kGridPlaces, kOutputColumns, dbias);
  add_to(dbias, kOutputs, gradient.output_bias);
}

// The gradient of the hidden layer before its tanh.
void hidden_gradient(int head, const HeadWeights<const float>& weights,
                     const HeadRun& run, std::span<const float> doutputs,
                     std::vector<float>& dhidden) {
  std::vector<float> back(size_t{kOutputColumns} * head);
  transpose(weights.output, head, kOutputs, head, back.data());
  dhidden.assign(size_t{kGridPlaces} * head, 0.0F);
  linear(doutputs.data(), kGridPlaces, kOutputColumns, back.data(), head,
         dhidden.data());
  for (size_t i = 0; i < dhidden.size(); ++i) {
    dhidden[i] *= 1 - run.hidden[i] * run.hidden[i];
  }
}

}  // namespace

void run_head(const ConvLstmShape& shape,
              const HeadWeights<const float>& weights, const LayerRun& first,
              const LayerRun& second, std::span<const float> features,
              HeadRun& run) {
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

void head_gradient(const ConvLstmShape& shape,
                   const HeadWeights<const float>& weights, const HeadRun& run,
                   std::span<const float> doutputs,
                   const HeadWeights<float>& gradient,
                   std::span<float> dhidden1, std::span<float> dhidden2,
                   HeadScratch& scratch) {
  const int head = shape.head;
  const int inputs = head_inputs(shape);
  const int width = rounded_up(inputs);
  output_gradient(head, run, doutputs, gradient);
  hidden_gradient(head, weights, run, doutputs, scratch.dhidden);
  const float* dhidden = scratch.dhidden.data();
  linear_gradient(run.inputs.data(), kGridPlaces, inputs, dhidden, head,
                  gradient.hidden);
  add_column_sums(dhidden, kGridPlaces, head, gradient.hidden_bias);

  std::vector<float> back(size_t{1} * head * width);
  transpose(weights.hidden, inputs, head, width, back.data());
  scratch.dinputs.assign(size_t{kGridPlaces} * width, 0.0F);
  linear(dhidden, kGridPlaces, head, back.data(), width,
         scratch.dinputs.data());
  spread_gradient(shape.hidden, scratch.dinputs, static_cast<size_t>(width),
                  dhidden1, dhidden2);
}

}  // namespace dtune
