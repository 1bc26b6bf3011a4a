#include "dtune/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "dtune/nn/host_span.h"
#include "dtune/nn/transfer.h"

namespace dtune {
namespace {

int64_t elements(const ParameterSlice& slice) {
  return std::accumulate(slice.shape.begin(), slice.shape.end(), int64_t{1},
                         std::multiplies<>());
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
  return UpdateStep{.lr = lr,
                    .number = updates_ + 1,
                    .gradient_scale = clip_factor(train_.clip_norm, norm)};
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
    const at::Device device = first_.device();
    apply_fused_update(send(update_numbers({{&train_, *step}}, device), device),
                       rows());
  }
  ++updates_;
  return true;
}

FusedTensors Optimizer::rows() {
  if (!l2_.defined()) l2_ = l2_tensor(runs_, first_);
  const auto row = [](const at::Tensor& flat) {
    return flat.defined() ? flat.unsqueeze(0) : flat;
  };
  return {row(network_.weights()), row(network_.gradients()), row(first_),
          row(second_), row(l2_)};
}

at::Tensor Optimizer::update_ahead(const at::Tensor& numbers) {
  return clip_and_update(numbers, rows());
}

std::vector<Optimizer::State> Optimizer::state() const {
  if (train_.optimizer == OptimizerKind::sgd) return {{"velocity", first_}};
  return {{"first_moment", first_}, {"second_moment", second_}};
}

}  // namespace dtune
