#include "dtune/train/device_loss.h"

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT: a test

namespace {

constexpr int kClasses = 3;
constexpr int64_t kSamples = 7;

struct Batch {
  Batch(const TrainSpec& train, std::vector<double> weights, bool mixes,
        uint64_t seed)
      : loss(train, kClasses, std::move(weights)) {
    Rng rng(seed);
    for (int64_t i = 0; i < kSamples; ++i) {
      labels.push_back(static_cast<int32_t>(rng.below(kClasses)));
      if (!mixes) continue;
      others.push_back(static_cast<int32_t>(rng.below(kClasses)));
      shares.push_back(static_cast<float>(rng.uniform()));
    }
  }
  Targets targets() const { return {labels, others, shares}; }

  Loss loss;
  std::vector<int32_t> labels;
  std::vector<int32_t> others;
  std::vector<float> shares;
};

void check_losses(const std::vector<Batch>& batches) {
  Rng rng(11);
  at::Tensor logits = at::empty({int64_t(batches.size()), kSamples, kClasses});
  for (int64_t i = 0; i < logits.numel(); ++i) {
    logits.data_ptr<float>()[i] = static_cast<float>(3 * rng.normal());
  }
  std::vector<JudgedBatch> judged;
  for (const Batch& batch : batches) {
    judged.push_back({&batch.loss, batch.targets()});
  }
  const DeviceLosses losses = device_losses(logits, judged);
  for (size_t k = 0; k < batches.size(); ++k) {
    const auto row = static_cast<int64_t>(k);
    at::Tensor gradient = at::empty({kSamples, kClasses});
    const LossTotals expected =
        batches[k].loss({logits[row].data_ptr<float>(), kSamples * kClasses},
                        batches[k].targets(),
                        {gradient.data_ptr<float>(), kSamples * kClasses});
    CHECK(losses.losses[row].item<double>() ==
          doctest::Approx(expected.loss).epsilon(1e-12));
    CHECK(losses.correct[row].item<double>() == expected.correct);
    CHECK(at::allclose(losses.gradients[row], gradient, 1e-6, 1e-9));
  }
}

}  // namespace

TEST_CASE("losses of a device are those of the CPU, each by its own numbers") {
  TrainSpec smooth;
  smooth.label_smoothing = 0.1;
  TrainSpec focal;
  focal.loss = LossKind::focal;
  focal.focal_gamma = 2;
  const std::vector<double> weights = {0.5, 2, 1};
  check_losses({Batch({}, {}, false, 1)});
  check_losses({Batch(focal, weights, false, 2)});
  check_losses({Batch({}, {}, false, 3), Batch(smooth, weights, true, 4),
                Batch(focal, weights, true, 5), Batch(smooth, {}, false, 6)});
}

TEST_CASE("a NaN logit makes the loss of its own batch alone NaN") {
  const std::vector<Batch> batches = {Batch({}, {}, false, 1),
                                      Batch({}, {}, false, 2)};
  at::Tensor logits = at::zeros({2, kSamples, kClasses});
  logits[1][0][0] = NAN;
  const DeviceLosses losses =
      device_losses(logits, {{&batches[0].loss, batches[0].targets()},
                             {&batches[1].loss, batches[1].targets()}});
  CHECK(losses.losses.isfinite()[0].item<bool>());
  CHECK_FALSE(losses.losses.isfinite()[1].item<bool>());
  CHECK(losses.gradients[0].isfinite().all().item<bool>());
}
