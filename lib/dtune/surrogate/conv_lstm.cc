#include "dtune/surrogate/conv_lstm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

std::array<LayerSize, 2> layer_sizes(const ConvLstmShape& shape) {
  return {{{kFeatures, shape.hidden}, {shape.hidden, shape.hidden}}};
}

// Normal numbers whose sums over `inputs` terms of size 1 have variance 1.
void fill_normal(Rng& rng, int inputs, std::span<float> weights) {
  const double deviation = 1 / std::sqrt(inputs);
  for (float& w : weights) w = static_cast<float>(deviation * rng.normal());
}

// All of a forward pass.
struct NetworkRun {
  std::vector<float> features;
  LayerRun first;
  LayerRun second;
  HeadRun head;
};

NetworkRun run_network(const ConvLstmShape& shape,
                       const NetworkWeights<const float>& weights,
                       const LiftedStudy& study) {
  const std::array<LayerSize, 2> sizes = layer_sizes(shape);
  NetworkRun run;
  run.features = lifted_features(study);
  run.first = run_layer(sizes[0], weights.layer[0], run.features);
  run.second = run_layer(sizes[1], weights.layer[1], run.first.hidden);
  run.head = run_head(shape, weights.head, run.first, run.second, run.features);
  return run;
}

bool is_finite(const Correction& correction) {
  for (int k = 0; k < kMixtureParts; ++k) {
    if (!std::isfinite(correction.weight[k] + correction.shift[k] +
                       correction.scale[k])) {
      return false;
    }
  }
  return true;
}

bool is_valid_place(const LiftedStudy& study, size_t i) {
  return std::isfinite(study.mean[i]) && std::isfinite(study.deviation[i]) &&
         study.deviation[i] > 0;
}

// The loss of a forward pass; its gradient by the head's outputs, times
// `factor`, unless `doutputs` is empty.
double run_loss(const LiftedStudy& study, std::span<const float> target,
                std::span<const float> weight, const NetworkRun& run,
                double factor, std::span<float> doutputs) {
  DTUNE_CHECK(target.size() == size_t{kGridPlaces});
  DTUNE_CHECK(weight.size() == size_t{kGridPlaces});
  double total = 0;
  for (const float w : weight) total += w;
  if (!(total > 0)) return 0;
  double sum = 0;
  std::array<double, kOutputs> slope;
  for (size_t i = 0; i < kGridPlaces; ++i) {
    if (weight[i] == 0) continue;
    const double deviation = study.deviation[i];
    const double z = (double{target[i]} - study.mean[i]) / deviation;
    const double share = weight[i] / total;
    sum += share *
           (mixture_loss(&run.head.outputs[i * kOutputColumns], z, &slope) +
            std::log(deviation));
    if (doutputs.empty()) continue;
    for (size_t k = 0; k < kOutputs; ++k) {
      doutputs[i * kOutputColumns + k] =
          static_cast<float>(factor * share * slope[k]);
    }
  }
  return sum;
}

}  // namespace

ConvLstm::ConvLstm(const ConvLstmShape& shape) : shape_(shape) {
  check_shape(shape);
  const TensorSpec last = tensor_specs(shape).back();
  parameters_.resize(last.offset + last.size);
}

ConvLstm::ConvLstm(const ConvLstmShape& shape, uint64_t seed)
    : ConvLstm(shape) {
  const std::vector<TensorSpec> specs = tensor_specs(shape);
  Rng rng(mix_seed({seed, hash_text("conv_lstm")}));
  const std::span<float> all = parameters_;
  for (const size_t layer : {size_t{0}, size_t{3}}) {
    const TensorSpec& taps = specs[layer];
    const TensorSpec& pooled = specs[layer + 1];
    const int channels = static_cast<int>(taps.shape[3]);
    fill_normal(rng, kTaps * channels, all.subspan(taps.offset, taps.size));
    fill_normal(rng, 2 * channels, all.subspan(pooled.offset, pooled.size));
    // Gates that forget nothing at first (Gers et al. 2000,
    // doi 10.1162/089976600300015015).
    float* bias = &all[specs[layer + 2].offset];
    std::fill_n(bias + shape.hidden, shape.hidden, 1.0F);
  }
  const TensorSpec& hidden = specs[6];
  fill_normal(rng, static_cast<int>(hidden.shape[0]),
              all.subspan(hidden.offset, hidden.size));
}

std::vector<Correction> ConvLstm::correct(const LiftedStudy& study) const {
  const NetworkRun run =
      run_network(shape_, weights_of(shape_, parameters_.data()), study);
  std::vector<Correction> result(size_t{kGridPlaces}, kHeavyTails);
  for (size_t i = 0; i < kGridPlaces; ++i) {
    if (!is_valid_place(study, i)) continue;
    const Correction c = mixture_of(&run.head.outputs[i * kOutputColumns]);
    if (is_finite(c)) result[i] = c;
  }
  return result;
}

double ConvLstm::loss(const LiftedStudy& study, std::span<const float> target,
                      std::span<const float> weight) const {
  const NetworkRun run =
      run_network(shape_, weights_of(shape_, parameters_.data()), study);
  return run_loss(study, target, weight, run, 1, {});
}

double ConvLstm::loss_and_gradient(const LiftedStudy& study,
                                   std::span<const float> target,
                                   std::span<const float> weight,
                                   std::span<float> gradient,
                                   double factor) const {
  DTUNE_CHECK(gradient.size() == parameters_.size());
  const auto weights = weights_of(shape_, parameters_.data());
  const auto gradients = weights_of(shape_, gradient.data());
  const std::array<LayerSize, 2> sizes = layer_sizes(shape_);
  const NetworkRun run = run_network(shape_, weights, study);
  std::vector<float> doutputs(size_t{kGridPlaces} * kOutputColumns);
  const double loss = run_loss(study, target, weight, run, factor, doutputs);

  const size_t states = size_t{kGridPlaces} * shape_.hidden;
  std::vector<float> dfirst(states), dsecond(states), dinputs(states);
  head_gradient(shape_, weights.head, run.head, doutputs, gradients.head,
                dfirst, dsecond);
  layer_gradient(sizes[1], weights.layer[1], run.second, dsecond,
                 gradients.layer[1], dinputs);
  for (size_t i = 0; i < states; ++i) dfirst[i] += dinputs[i];
  layer_gradient(sizes[0], weights.layer[0], run.first, dfirst,
                 gradients.layer[0], {});
  return loss;
}

}  // namespace dtune
