#include "dtune/train/optimizer.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/random.h"
#include "dtune/train/loss.h"

using namespace dtune;

namespace {

std::vector<LayerSpec> small_layers() {
  ModelSpec model;
  model.arch = "resnet18";
  model.width = 4;
  return expand_model(model, {.channels = 1, .height = 8, .width = 8}, 3);
}

Network small_network() {
  return {small_layers(), {.channels = 1, .height = 8, .width = 8}, {}};
}

at::Tensor tensor_of(std::vector<float>& values) {
  return at::from_blob(values.data(), {int64_t(values.size())}, at::kFloat);
}

std::vector<float> random_values(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

// Five steps with both implementations of the rules.
void check_agree(const TrainSpec& train) {
  constexpr size_t kCount = 50;
  const std::vector<DecayRun> runs = {{0, 30, train.l2}, {30, kCount, 0}};
  const bool plain = train.optimizer == OptimizerKind::sgd;
  std::vector<float> w = random_values(kCount, 1);
  std::vector<float> first(kCount), second(kCount);
  constexpr auto kColumns = int64_t{kCount};
  const auto row = [] { return at::zeros({1, kColumns}); };
  FusedTensors tensors{tensor_of(w).clone().unsqueeze(0), row(), row(),
                       plain ? at::Tensor() : row(), row()};
  tensors.l2.narrow(1, 0, 30).fill_(train.l2);
  for (int64_t number = 1; number <= 5; ++number) {
    std::vector<float> g = random_values(kCount, uint64_t(number) + 10);
    tensors.gradients[0].copy_(tensor_of(g));
    const UpdateStep step{
        .lr = train.lr, .number = number, .gradient_scale = 0.5};
    apply_update(
        train, step, runs,
        UpdateArrays{w, g, first, plain ? std::span<float>() : second});
    apply_fused_update(update_numbers({{&train, step}}, at::kCPU), tensors);
    CHECK(tensors.gradients.abs().max().item<float>() == 0);
  }
  // Different order of rounding only.
  CHECK(at::allclose(tensor_of(w), tensors.weights[0], 1e-5, 1e-6));
  CHECK(at::allclose(tensor_of(first), tensors.first[0], 1e-5, 1e-6));
}

}  // namespace

TEST_CASE("the rules of other devices are those of the CPU") {
  for (const auto kind :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    TrainSpec train;
    train.optimizer = kind;
    train.lr = 0.02;
    train.l2 = 0.1;
    check_agree(train);
    train.nesterov = true;
    check_agree(train);
  }
}

TEST_CASE("L2 leaves biases and normalisation alone by default") {
  Network network = small_network();
  TrainSpec train;
  train.l2 = 0.25;
  const auto runs = decay_runs(network.parameter_slices(), train);
  CHECK(runs.size() > 2);
  int64_t at = 0;
  for (const DecayRun& run : runs) {
    CHECK(run.begin == at);
    at = run.end;
  }
  CHECK(at == network.weights().numel());
  for (const ParameterSlice& slice : network.parameter_slices()) {
    for (const DecayRun& run : runs) {
      if (run.begin <= slice.offset && slice.offset < run.end) {
        CHECK(run.l2 == (slice.shape.size() > 1 ? 0.25 : 0));
      }
    }
  }
  train.l2_on_all = true;
  CHECK(decay_runs(network.parameter_slices(), train).size() == 1);
}

TEST_CASE("a gradient longer than clip_norm is scaled to it") {
  TrainSpec train;
  train.momentum = 0;
  train.clip_norm = 2;
  Network network = small_network();
  Optimizer optimizer(train, network);
  const at::Tensor before = network.weights().clone();
  network.gradients().fill_(1);
  CHECK(optimizer.update(1));
  CHECK((network.weights() - before).norm().item<double>() ==
        doctest::Approx(2).epsilon(1e-3));
  network.gradients().fill_(1e-6F);  // shorter: as it is
  const at::Tensor then = network.weights().clone();
  CHECK(optimizer.update(1000));
  CHECK((then - network.weights()).max().item<double>() ==
        doctest::Approx(1e-3).epsilon(1e-2));
}

TEST_CASE("a gradient without a norm changes nothing and is reported") {
  for (const double clip_norm : {0, 1}) {
    TrainSpec train;
    train.clip_norm = clip_norm;
    Network network = small_network();
    Optimizer optimizer(train, network);
    const at::Tensor before = network.weights().clone();
    network.gradients()[3] = std::nanf("");
    CHECK_FALSE(optimizer.update(1));
    CHECK(at::equal(network.weights(), before));
    CHECK(optimizer.updates() == 0);
  }
}

TEST_CASE("cross-entropy is LibTorch's, smoothed and weighted") {
  constexpr int kSamples = 12;
  constexpr int kClasses = 4;
  std::vector<float> logits = random_values(kSamples * kClasses, 5);
  std::vector<int32_t> labels;
  for (int i = 0; i < kSamples; ++i) labels.push_back(i * 7 % kClasses);
  const at::Tensor targets =
      at::from_blob(labels.data(), {kSamples}, at::kInt).to(at::kLong);
  std::vector<float> weights = {0.5F, 2, 1, 0.25F};
  std::vector<float> gradient(logits.size());
  for (const double smoothing : {0.0, 0.2}) {
    TrainSpec train;
    train.label_smoothing = smoothing;
    const Loss loss(train, kClasses, {weights.begin(), weights.end()});
    const LossTotals totals = loss(logits, labels, gradient);
    const at::Tensor expected = at::cross_entropy_loss(
        tensor_of(logits).view({kSamples, kClasses}), targets,
        tensor_of(weights), at::Reduction::Mean, -100, smoothing);
    CHECK(totals.loss / totals.weight ==
          doctest::Approx(expected.item<double>()).epsilon(1e-5));
  }
}
