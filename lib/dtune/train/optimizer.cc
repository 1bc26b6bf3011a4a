#include "dtune/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "dtune/nn/host_span.h"

namespace dtune {
namespace {

int64_t elements(const ParameterSlice& slice) {
  return std::accumulate(slice.shape.begin(), slice.shape.end(), int64_t{1},
                         std::multiplies<>());
}

void apply_sgd(const TrainSpec& train, const UpdateStep& step,
               const UpdateTensors& t) {
  t.gradients.addcmul_(t.l2, t.weights);
  t.first.mul_(train.momentum).add_(t.gradients);
  if (train.nesterov) {
    t.weights.add_(t.gradients, -step.lr);
    t.weights.add_(t.first, -step.lr * train.momentum);
  } else {
    t.weights.add_(t.first, -step.lr);
  }
}

void apply_adam(const TrainSpec& train, const UpdateStep& step,
                const UpdateTensors& t) {
  if (train.optimizer == OptimizerKind::adamw) {
    t.weights.addcmul_(t.l2, t.weights, -step.lr);
  } else {
    t.gradients.addcmul_(t.l2, t.weights);
  }
  t.first.mul_(train.beta1).add_(t.gradients, 1 - train.beta1);
  t.second.mul_(train.beta2)
      .addcmul_(t.gradients, t.gradients, 1 - train.beta2);
  const auto number = static_cast<double>(step.number);
  const double rate = step.lr / (1 - std::pow(train.beta1, number));
  const double root = std::sqrt(1 - std::pow(train.beta2, number));
  t.weights.addcdiv_(t.first, t.second.sqrt().div_(root).add_(kAdamEpsilon),
                     -rate);
}

}  // namespace

std::vector<DecayRun> decay_runs(std::span<const ParameterSlice> slices,
                                 const TrainSpec& train) {
  std::vector<DecayRun> runs;
  for (const ParameterSlice& slice : slices) {
    const double l2 = slice.decays || train.l2_on_all ? train.l2 : 0;
    const int64_t end = slice.offset + elements(slice);
    const bool joins = !runs.empty() && runs.back().l2 == l2 &&
                       runs.back().end == slice.offset;
    if (joins) {
      runs.back().end = end;
    } else {
      runs.push_back({slice.offset, end, l2});
    }
  }
  return runs;
}

at::Tensor l2_tensor(std::span<const DecayRun> runs, const at::Tensor& like) {
  at::Tensor l2 = at::zeros_like(like);
  for (const DecayRun& run : runs) {
    l2.narrow(0, run.begin, run.end - run.begin).fill_(run.l2);
  }
  return l2;
}

void apply_update(const TrainSpec& train, const UpdateStep& step,
                  const UpdateTensors& tensors) {
  if (step.gradient_scale != 1) tensors.gradients.mul_(step.gradient_scale);
  if (train.optimizer == OptimizerKind::sgd) {
    apply_sgd(train, step, tensors);
  } else {
    apply_adam(train, step, tensors);
  }
  tensors.gradients.zero_();
}

at::Tensor clip_scales(const at::Tensor& limits, const at::Tensor& norms) {
  return limits.div(norms.add(kClipEpsilon)).clamp_max_(1);
}

Optimizer::Optimizer(const TrainSpec& train, Network& network)
    : train_(train),
      network_(network),
      runs_(decay_runs(network.parameter_slices(), train)),
      first_(at::zeros_like(network.weights())) {
  if (train.optimizer != OptimizerKind::sgd) second_ = at::zeros_like(first_);
}

bool Optimizer::update(double lr) {
  return update(lr, network_.gradients().norm().item<double>());
}

std::optional<UpdateStep> Optimizer::next_step(double lr, double norm) const {
  if (!std::isfinite(norm)) return std::nullopt;
  UpdateStep step{.lr = lr, .number = updates_ + 1, .gradient_scale = 1};
  if (train_.clip_norm > 0) {
    step.gradient_scale =
        std::min(1.0, train_.clip_norm / (norm + kClipEpsilon));
  }
  return step;
}

bool Optimizer::update(double lr, double norm) {
  const std::optional<UpdateStep> step = next_step(lr, norm);
  if (!step) return false;
  if (first_.device().is_cpu()) {
    apply_update(
        train_, *step, runs_,
        UpdateArrays{floats(network_.weights()), floats(network_.gradients()),
                     floats(first_), floats(second_)});
  } else {
    apply_update(train_, *step, tensors());
  }
  ++updates_;
  return true;
}

UpdateTensors Optimizer::tensors() {
  if (!l2_.defined()) l2_ = l2_tensor(runs_, first_);
  return {network_.weights(), network_.gradients(), first_, second_, l2_};
}

at::Tensor Optimizer::update_ahead(double lr) {
  const UpdateTensors all = tensors();
  const at::Tensor norm = all.gradients.norm();
  if (train_.clip_norm > 0) {
    all.gradients.mul_(
        clip_scales(at::full_like(norm, train_.clip_norm), norm));
  }
  apply_update(train_, {.lr = lr, .number = ++updates_}, all);
  return norm;
}

std::vector<Optimizer::State> Optimizer::state() const {
  if (train_.optimizer == OptimizerKind::sgd) return {{"velocity", first_}};
  return {{"first_moment", first_}, {"second_moment", second_}};
}

}  // namespace dtune
