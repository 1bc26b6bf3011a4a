#include "dtune/study/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "dtune/base/random.h"
#include "dtune/study/recipe.h"

using namespace dtune;

namespace {

// The definition: the share of (positive, negative) pairs in the right order,
// ties counting one half.
double pairs_in_order(std::span<const float> scores,
                      std::span<const uint8_t> positive) {
  double right = 0;
  double pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (positive[i] == 0 || positive[j] != 0) continue;
      pairs += 1;
      right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return right / pairs;
}

}  // namespace

TEST_CASE("the AUC is the share of pairs in the right order") {
  Rng rng(7);
  for (const uint64_t levels : {2, 5, 1000}) {  // few levels: many ties
    std::vector<float> scores;
    std::vector<uint8_t> positive;
    for (int i = 0; i < 200; ++i) {
      positive.push_back(rng.uniform() < 0.3 ? 1 : 0);
      scores.push_back(static_cast<float>(rng.below(levels)) +
                       0.3F * static_cast<float>(positive.back()));
      if (rng.uniform() < 0.5) scores.back() = std::floor(scores.back());
    }
    CHECK(*roc_auc(scores, positive) ==
          doctest::Approx(pairs_in_order(scores, positive)).epsilon(1e-12));
  }
}

TEST_CASE("the AUC of a perfect, a reversed and a constant score") {
  const std::vector<uint8_t> positive = {0, 0, 1, 1};
  CHECK(*roc_auc(std::vector<float>{1, 2, 3, 4}, positive) == 1);
  CHECK(*roc_auc(std::vector<float>{4, 3, 2, 1}, positive) == 0);
  CHECK(*roc_auc(std::vector<float>{5, 5, 5, 5}, positive) == 0.5);
}

TEST_CASE("there is no AUC without positives or negatives") {
  const std::vector<float> scores = {1, 2};
  CHECK_FALSE(roc_auc(scores, std::vector<uint8_t>{1, 1}).has_value());
  CHECK_FALSE(roc_auc(scores, std::vector<uint8_t>{0, 0}).has_value());
  CHECK_FALSE(roc_auc({}, {}).has_value());
}

TEST_CASE("accuracy counts the largest logit, the first among equals") {
  Predictions predictions(3);
  predictions.add(std::vector<float>{0, 1, 1, 2, 1, 0},
                  std::vector<int32_t>{1, 0});
  CHECK(predictions.accuracy() == 1);
  predictions.add(std::vector<float>{0, 1, 1}, std::vector<int32_t>{2});
  CHECK(predictions.accuracy() == doctest::Approx(2.0 / 3));
}

TEST_CASE("the loss is the mean negative log-likelihood") {
  Predictions predictions(2);
  predictions.add(std::vector<float>{0, 0, 1000, 0},
                  std::vector<int32_t>{1, 1});
  CHECK(predictions.loss() == doctest::Approx((std::log(2.0) + 1000) / 2));
}

TEST_CASE("the AUC of two classes tells scores apart that round to 1") {
  Predictions predictions(2);  // softmax gives 1 for the first and the second
  predictions.add(std::vector<float>{0, 200, 0, 300, 0, 400},
                  std::vector<int32_t>{0, 1, 1});
  CHECK(*predictions.auc() == 1);
}

TEST_CASE("the AUC of many classes is the mean over those that occur") {
  Predictions predictions(3);                   // class 2 never occurs
  predictions.add(std::vector<float>{5, 0, 0,   //
                                     6, 5, 0,   //
                                     0, 9, 0,   //
                                     9, 0, 0},  //
                  std::vector<int32_t>{0, 1, 1, 1});
  // Class 0: log-odds 4.3, 1.0, -9, 8.3; its only sample beats two of three.
  // Class 1: log-odds -5.0, -1.0, 8.3, -9; two of three beat sample 0.
  CHECK(*predictions.auc() == doctest::Approx((2.0 / 3 + 2.0 / 3) / 2));
}

TEST_CASE("what is not finite is noticed, and has no AUC") {
  Predictions predictions(2);
  predictions.add(
      std::vector<float>{0, std::numeric_limits<float>::quiet_NaN()},
      std::vector<int32_t>{0});
  CHECK_FALSE(predictions.finite());
  CHECK_FALSE(predictions.auc().has_value());
}

TEST_CASE("metrics carry the split's name, an empty split has none") {
  Predictions predictions(2);
  CHECK(predictions.metrics("val_").empty());
  predictions.add(std::vector<float>{0, 1, 1, 0}, std::vector<int32_t>{1, 0});
  const auto metrics = predictions.metrics("val_");
  CHECK(metrics.at("val_accuracy") == 1);
  CHECK(metrics.at("val_auc") == 1);
  CHECK(metrics.at("val_loss") == doctest::Approx(std::log1p(std::exp(-1.0))));
}

TEST_CASE("objectives may name what trainings report and no more") {
  Predictions predictions(2);
  predictions.add(std::vector<float>{1, 0, 0, 1}, std::vector<int32_t>{0, 1});
  std::vector<std::string> reported;
  for (const auto& [name, value] : predictions.metrics("val_")) {
    reported.push_back(name);
  }
  for (const auto& [name, value] : training_metrics({1, 2, 1, 2})) {
    reported.push_back(name);
  }
  std::vector<std::string> known = step_metrics();
  std::sort(known.begin(), known.end());
  std::sort(reported.begin(), reported.end());
  CHECK(reported == known);
  CHECK(training_metrics({}).empty());
  for (const auto& [name, value] : predictions.metrics("test_")) {
    known.push_back(name);
  }
  std::vector<std::string> all = all_metrics();
  std::sort(known.begin(), known.end());
  std::sort(all.begin(), all.end());
  CHECK(all == known);
}

TEST_CASE("the threshold of two classes is where validation is best") {
  // Log-odds -2, -1, 1, 3, 4 with labels 0, 0, 0, 1, 1: best between 1 and 3.
  Predictions predictions(2);
  predictions.add(std::vector<float>{0, -2, 0, -1, 0, 1, 0, 3, 0, 4},
                  std::vector<int32_t>{0, 0, 0, 1, 1});
  CHECK(predictions.accuracy() == 0.8);
  const double threshold = predictions.best_threshold(ThresholdRule::accuracy);
  CHECK(threshold == doctest::Approx(1 / (1 + std::exp(-2.0))));
  CHECK(predictions.best_threshold(ThresholdRule::balanced) == threshold);
  CHECK(predictions.best_threshold(ThresholdRule::half) == 0.5);
  predictions.set_threshold(threshold);
  CHECK(predictions.accuracy() == 1);
  CHECK(predictions.metrics("test_").at("test_accuracy") == 1);
}

TEST_CASE("a threshold weighs samples or classes") {
  // Of class 1 one sample, with odds between those of class 0.
  Predictions predictions(2);
  predictions.add(std::vector<float>{0, -3, 0, -2, 0, -1, 0, -1.5F},
                  std::vector<int32_t>{0, 0, 0, 1});
  CHECK(predictions.best_threshold(ThresholdRule::accuracy) == 0.5);
  CHECK(predictions.best_threshold(ThresholdRule::balanced) ==
        doctest::Approx(1 / (1 + std::exp(1.75))));
}

TEST_CASE("a threshold stays at one half where nothing is better") {
  Predictions perfect(2);
  perfect.add(std::vector<float>{0, -3, 0, 9}, std::vector<int32_t>{0, 1});
  CHECK(perfect.best_threshold(ThresholdRule::accuracy) == 0.5);
  Predictions one_class(2);
  one_class.add(std::vector<float>{0, -3, 0, 9}, std::vector<int32_t>{1, 1});
  CHECK(one_class.best_threshold(ThresholdRule::balanced) == 0.5);
  Predictions ties(2);  // equal odds cannot be told apart
  ties.add(std::vector<float>{0, 1, 0, 1}, std::vector<int32_t>{0, 1});
  CHECK(ties.best_threshold(ThresholdRule::accuracy) == 0.5);
}
