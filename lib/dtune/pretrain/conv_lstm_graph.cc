#include "dtune/pretrain/conv_lstm_graph.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

// [studies, frames, features, lr, l2, dropout]
at::Tensor features_of(std::span<const GridFeatures* const> studies) {
  std::vector<at::Tensor> all;
  for (const GridFeatures* study : studies) {
    // Voxels are [dropout][lr][l2] there.
    std::vector<float> features = input_features(*study);
    all.push_back(
        at::from_blob(features.data(),
                      {kGridFrames, kGridDropout, kGridLr, kGridL2, kFeatures},
                      at::kFloat)
            .permute({0, 4, 2, 3, 1})
            .clone());
  }
  return at::stack(all);
}

// Views of the weights, by their order in tensor_specs().
std::vector<at::Tensor> weights_in(const ConvLstmShape& shape,
                                   const at::Tensor& parameters) {
  std::vector<at::Tensor> weights;
  for (const TensorSpec& spec : tensor_specs(shape)) {
    weights.push_back(parameters
                          .narrow(0, static_cast<int64_t>(spec.offset),
                                  static_cast<int64_t>(spec.size))
                          .view(spec.shape));
  }
  return weights;
}

// x: [N, frames, C, lr, l2, dropout]; returns h, likewise with `hidden`
// channels.
at::Tensor run_layer(int64_t hidden, const at::Tensor& convolution,
                     const at::Tensor& pooled, const at::Tensor& bias,
                     const at::Tensor& x) {
  const at::Tensor kernel = convolution.permute({4, 3, 0, 1, 2}).contiguous();
  std::vector<int64_t> state = x.select(1, 0).sizes().vec();
  state[1] = hidden;
  at::Tensor h = at::zeros(state, x.options());
  at::Tensor c = h;
  std::vector<at::Tensor> outputs;
  for (int64_t t = 0; t < x.size(1); ++t) {
    const at::Tensor z = at::cat({x.select(1, t), h}, 1);
    const at::Tensor pool =
        at::cat({z.mean({2, 3, 4}), z.amax({2, 3, 4})}, 1).mm(pooled);
    const at::Tensor sums = at::conv3d(z, kernel, bias, 1, 1) +
                            pool.view({z.size(0), 4 * hidden, 1, 1, 1});
    const std::vector<at::Tensor> gates = sums.chunk(4, 1);  // i, f, o, g
    c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[3].tanh();
    h = gates[2].sigmoid() * c.tanh();
    outputs.push_back(h);
  }
  return at::stack(outputs, 1);
}

// [N, frames, C, lr, l2, dropout] of the last frame, at all frames.
at::Tensor last_everywhere(const at::Tensor& h) {
  return h.narrow(1, kGridFrames - 1, 1).expand_as(h);
}

// One number of each place of all samples, as [samples, places] float64.
template <typename Get>
at::Tensor gather(std::span<const TrainingSample> samples, const Get& get) {
  std::vector<at::Tensor> all;
  for (const TrainingSample& sample : samples) {
    const std::vector<float>& values = get(sample);
    all.push_back(at::from_blob(const_cast<float*>(values.data()),
                                {static_cast<int64_t>(values.size())},
                                at::kFloat)
                      .to(at::kDouble));
  }
  return at::stack(all);
}

at::Tensor constant(const std::array<double, kMixtureParts>& values) {
  return at::tensor(at::ArrayRef<double>(values.data(), values.size()),
                    at::kDouble);
}

at::Tensor bounded(const at::Tensor& x, double bound) {
  return bound * at::tanh(x / bound);
}

// ln density of z [samples, places] under mixture_of(outputs).
at::Tensor log_densities(const at::Tensor& outputs, const at::Tensor& z) {
  const std::vector<at::Tensor> parts =
      outputs.to(at::kDouble).chunk(3, -1);  // logits, shifts, log scales
  const at::Tensor log_weight = at::log_softmax(
      constant(kHeavyTails.weight).log() + bounded(parts[0], kLogitBound), -1);
  const at::Tensor log_scale =
      constant(kHeavyTails.scale).log() + bounded(parts[2], kLogScaleBound);
  const at::Tensor e =
      (z.unsqueeze(-1) - bounded(parts[1], kShiftBound)) * at::exp(-log_scale);
  return at::logsumexp(log_weight - log_scale - 0.5 * e * e, -1) -
         0.5 * std::log(2 * std::numbers::pi);
}

}  // namespace

at::Tensor conv_lstm_outputs(const ConvLstmShape& shape,
                             const at::Tensor& parameters,
                             std::span<const GridFeatures* const> studies) {
  const std::vector<at::Tensor> w = weights_in(shape, parameters);
  const at::Tensor x = features_of(studies);
  const at::Tensor first = run_layer(shape.hidden, w[0], w[1], w[2], x);
  const at::Tensor second = run_layer(shape.hidden, w[3], w[4], w[5], first);
  const at::Tensor inputs = at::cat(
      {last_everywhere(first), last_everywhere(second), first, second, x}, 2);
  // [N, places, channels]
  const at::Tensor rows =
      inputs.permute({0, 1, 3, 4, 5, 2})
          .reshape({x.size(0), int64_t{kGridPlaces}, inputs.size(2)});
  return at::tanh(rows.matmul(w[6]) + w[7]).matmul(w[8]) + w[9];
}

at::Tensor conv_lstm_losses(const ConvLstmShape& shape,
                            const at::Tensor& parameters,
                            std::span<const TrainingSample> samples) {
  std::vector<const GridFeatures*> studies;
  for (const TrainingSample& sample : samples) {
    studies.push_back(&sample.study);
  }
  const auto mean = [](const auto& s) -> auto& { return s.study.mean; };
  const auto spread = [](const auto& s) -> auto& { return s.study.deviation; };
  const auto wanted = [](const auto& s) -> auto& { return s.target; };
  const auto share = [](const auto& s) -> auto& { return s.weight; };
  const at::Tensor weight = gather(samples, share);
  const at::Tensor counts = weight > 0;
  const at::Tensor deviation = at::where(counts, gather(samples, spread), 1.0);
  const at::Tensor off = gather(samples, wanted) - gather(samples, mean);
  const at::Tensor z = at::where(counts, off / deviation, 0.0);
  const at::Tensor surprise =
      at::log(deviation) -
      log_densities(conv_lstm_outputs(shape, parameters, studies), z);
  // The smallest number stands for a sum of 0.
  const at::Tensor total = weight.sum(1).clamp_min(1e-300);
  return (weight * surprise).sum(1) / total;
}

}  // namespace dtune
