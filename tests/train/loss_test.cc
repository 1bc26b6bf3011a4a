#include "dtune/train/loss.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;

namespace {

struct Batch {
  std::vector<float> logits;
  std::vector<int32_t> labels;
};

Batch random_batch(int samples, int classes) {
  Rng rng(3);
  Batch batch;
  for (int i = 0; i < samples; ++i) {
    batch.labels.push_back(static_cast<int32_t>(rng.below(uint64_t(classes))));
    for (int k = 0; k < classes; ++k) {
      batch.logits.push_back(static_cast<float>(2 * rng.normal()));
    }
  }
  return batch;
}

double mean_loss(const Loss& loss, const Batch& batch) {
  std::vector<float> gradient(batch.logits.size());
  const LossTotals totals = loss(batch.logits, batch.labels, gradient);
  return totals.loss / totals.weight;
}

// Central differences. Steps of 2^-7 are exact in the logits' float; the error
// of the third order is about 1e-5 of the gradient.
void check_gradient(const Loss& loss, const Batch& batch) {
  std::vector<float> gradient(batch.logits.size());
  loss(batch.logits, batch.labels, gradient);
  constexpr float kStep = 1.0F / 128;
  for (size_t i = 0; i < batch.logits.size(); ++i) {
    Batch up = batch;
    up.logits[i] += kStep;
    Batch down = batch;
    down.logits[i] -= kStep;
    const double width = double{up.logits[i]} - double{down.logits[i]};
    const double slope = (mean_loss(loss, up) - mean_loss(loss, down)) / width;
    CHECK(gradient[i] == doctest::Approx(slope).epsilon(1e-3).scale(0.01));
  }
}

}  // namespace

TEST_CASE("a mixed sample's loss is the mean of those with either label") {
  const Batch batch = random_batch(4, 3);
  const std::vector<int32_t> others = {0, 1, 2, 0};
  const std::vector<float> shares = {1, 0, 0.25F, 0.75F};
  for (const auto kind : {LossKind::cross_entropy, LossKind::focal}) {
    TrainSpec train;
    train.loss = kind;
    train.label_smoothing = 0.1;
    const Loss loss(train, 3, {0.5, 2, 0.7});
    const auto with = [&](const Targets& targets, std::vector<float>& slope) {
      slope.assign(batch.logits.size(), 0);
      return loss(batch.logits, targets, slope);
    };
    std::vector<float> mixed;
    const Targets targets(batch.labels, others, shares);
    const LossTotals totals = with(targets, mixed);
    double expected = 0;
    double weight = 0;
    std::vector<double> slope(mixed.size());
    for (size_t i = 0; i < 4; ++i) {
      for (const bool own : {true, false}) {
        const double share = own ? shares[i] : 1 - shares[i];
        const Targets one = Targets(own ? batch.labels : others).part(i, 1);
        std::vector<float> part(3);
        const LossTotals sums =
            loss(std::span(batch.logits).subspan(3 * i, 3), one, part);
        expected += share * sums.loss;
        weight += share * sums.weight;
        for (size_t k = 0; k < 3; ++k) {
          slope[3 * i + k] += share * sums.weight * part[k];
        }
      }
    }
    CHECK(totals.loss == doctest::Approx(expected));
    CHECK(totals.weight == doctest::Approx(weight));
    CHECK(loss.weight(targets) == totals.weight);
    for (size_t i = 0; i < mixed.size(); ++i) {
      CHECK(mixed[i] == doctest::Approx(slope[i] / weight).scale(0.1));
    }
  }
}

TEST_CASE("cross-entropy of even logits is the logarithm of the classes") {
  const Loss loss(TrainSpec{}, 4, {});
  const Batch batch{{1, 1, 1, 1}, {2}};
  CHECK(mean_loss(loss, batch) == doctest::Approx(std::log(4.0)));
}

TEST_CASE("the gradient of cross-entropy is its slope") {
  TrainSpec train;
  check_gradient(Loss(train, 5, {}), random_batch(6, 5));
  train.label_smoothing = 0.1;
  check_gradient(Loss(train, 5, {}), random_batch(6, 5));
  check_gradient(Loss(train, 3, {0.5, 2, 0.7}), random_batch(6, 3));
}

TEST_CASE("the gradient of the focal loss is its slope") {
  TrainSpec train;
  train.loss = LossKind::focal;
  for (const double gamma : {0.0, 0.5, 1.0, 2.0, 5.0}) {
    train.focal_gamma = gamma;
    check_gradient(Loss(train, 4, {}), random_batch(6, 4));
    check_gradient(Loss(train, 2, {0.25, 1.75}), random_batch(6, 2));
  }
}

TEST_CASE("a focal loss of gamma 0 is cross-entropy") {
  TrainSpec focal;
  focal.loss = LossKind::focal;
  focal.focal_gamma = 0;
  const Batch batch = random_batch(8, 4);
  CHECK(mean_loss(Loss(focal, 4, {}), batch) ==
        doctest::Approx(mean_loss(Loss(TrainSpec{}, 4, {}), batch)));
}

TEST_CASE("label smoothing and weights are as in PyTorch's CrossEntropyLoss") {
  // torch.nn.functional.cross_entropy(tensor([[1., 2., 3.], [0., 0.5, -1.]]),
  //   tensor([0, 1]), weight=tensor([1., 2., 0.5]), label_smoothing=0.3)
  TrainSpec train;
  train.label_smoothing = 0.3;
  const Batch batch{{1, 2, 3, 0, 0.5F, -1}, {0, 1}};
  const auto log_p = [&](int row, int k) {
    double sum = 0;
    for (int c = 0; c < 3; ++c) sum += std::exp(batch.logits[row * 3 + c]);
    return batch.logits[row * 3 + k] - std::log(sum);
  };
  const double w[] = {1, 2, 0.5};
  double plain = -w[0] * log_p(0, 0) - w[1] * log_p(1, 1);
  double even = 0;
  for (int row = 0; row < 2; ++row) {
    for (int k = 0; k < 3; ++k) even -= w[k] * log_p(row, k);
  }
  const double expected = (0.7 * plain + 0.3 / 3 * even) / (w[0] + w[1]);
  CHECK(mean_loss(Loss(train, 3, {1, 2, 0.5}), batch) ==
        doctest::Approx(expected));
}

TEST_CASE("extreme logits neither overflow nor lose their gradient") {
  const Batch batch{{1e30F, -1e30F}, {1}};
  TrainSpec train;
  for (const LossKind kind : {LossKind::cross_entropy, LossKind::focal}) {
    train.loss = kind;
    std::vector<float> gradient(2);
    const LossTotals totals =
        Loss(train, 2, {})(batch.logits, batch.labels, gradient);
    CHECK(totals.loss == doctest::Approx(2e30));
    CHECK(gradient[0] == doctest::Approx(1));
    CHECK(gradient[1] == doctest::Approx(-1));
  }
}

TEST_CASE("a NaN logit makes the loss NaN") {
  std::vector<float> gradient(2);
  const Batch batch{{std::nanf(""), 0}, {1}};
  const Loss loss(TrainSpec{}, 2, {});
  CHECK_FALSE(std::isfinite(loss(batch.logits, batch.labels, gradient).loss));
  const Batch infinite{{INFINITY, 0}, {0}};
  const Batch of_another{{0, -INFINITY}, {0}};
  CHECK_FALSE(
      std::isfinite(loss(infinite.logits, infinite.labels, gradient).loss));
  CHECK_FALSE(
      std::isfinite(loss(of_another.logits, of_another.labels, gradient).loss));
}

TEST_CASE("correct predictions are counted") {
  std::vector<float> gradient(4);
  const Batch batch{{2, 1, 2, 1}, {0, 1}};
  const LossTotals totals =
      Loss(TrainSpec{}, 2, {})(batch.logits, batch.labels, gradient);
  CHECK(totals.correct == 1);
  CHECK(totals.samples == 2);
}

TEST_CASE("balanced weights make every class weigh the same") {
  const std::vector<int64_t> counts = {10, 30, 0, 20};
  const std::vector<double> weights = balanced_weights(counts);
  CHECK(weights[0] * 10 == doctest::Approx(20));
  CHECK(weights[1] * 30 == doctest::Approx(20));
  CHECK(weights[2] == 0);
  CHECK(weights[3] * 20 == doctest::Approx(20));
}
