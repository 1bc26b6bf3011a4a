#include "dtune/study/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dtune/base/error.h"
#include "dtune/study/recipe.h"

namespace dtune {
namespace {

// log sum exp over all of `values` but the one at `left_out` (-1: none).
double log_sum_exp(std::span<const float> values, int left_out) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int k = 0; k < static_cast<int>(values.size()); ++k) {
    if (k != left_out) largest = std::max(largest, values[k]);
  }
  double sum = 0;
  for (int k = 0; k < static_cast<int>(values.size()); ++k) {
    if (k != left_out) sum += std::exp(double{values[k]} - double{largest});
  }
  return double{largest} + std::log(sum);
}

// A sample of two classes: the log-odds of the second, and whether it is it.
struct ScoredLabel {
  float odds;
  bool positive;
};

// The threshold of Predictions::best_threshold. Every cut between neighbours of
// the sorted odds is tried; its gain, in whole units, is over the answer that
// is always the second class.
double best_cut(std::vector<ScoredLabel> samples, bool balanced) {
  std::ranges::sort(samples, {}, &ScoredLabel::odds);
  const int64_t positives =
      std::ranges::count(samples, true, &ScoredLabel::positive);
  const int64_t negatives = std::ssize(samples) - positives;
  // Of a sample that is answered with the first class.
  const auto gain_of = [&](const ScoredLabel& one) {
    if (one.positive) return balanced ? -negatives : int64_t{-1};
    return balanced ? positives : int64_t{1};
  };
  int64_t best = 0;
  for (const ScoredLabel& one : samples)
    best += one.odds < 0 ? gain_of(one) : 0;
  int64_t gain = 0;
  double widest = 0;  // of the best cuts; 0: none is better than 0.5
  double middle = 0;
  for (size_t i = 0; i + 1 < samples.size(); ++i) {
    gain += gain_of(samples[i]);
    const double low = samples[i].odds;
    const double width = samples[i + 1].odds - low;
    const bool as_good = gain == best && width > widest && widest > 0;
    if (width == 0 || (gain <= best && !as_good)) continue;
    best = gain;
    widest = width;
    middle = low + width / 2;
  }
  constexpr double kLeast = 1e-12;
  return std::clamp(1 / (1 + std::exp(-middle)), kLeast, 1 - kLeast);
}

// The metrics. Of predictions:
struct PredictionsMetric {
  const char* name;
  std::optional<double> (*of)(const Predictions& predictions);
};
constexpr PredictionsMetric kOfPredictions[] = {
    {"accuracy",
     [](const Predictions& a) { return std::optional(a.accuracy()); }},
    {"loss", [](const Predictions& a) { return std::optional(a.loss()); }},
    {"auc", [](const Predictions& a) { return a.auc(); }},
};

// Of a step's training:
struct TrainingMetric {
  const char* name;
  double (*of)(const LossTotals& sums);
};
constexpr TrainingMetric kOfTraining[] = {
    {"train_loss", [](const LossTotals& s) { return s.loss / s.weight; }},
    {"train_accuracy",
     [](const LossTotals& s) {
       return static_cast<double>(s.correct) / static_cast<double>(s.samples);
     }},
};

}  // namespace

std::optional<double> roc_auc(std::span<const float> scores,
                              std::span<const uint8_t> positive) {
  DTUNE_CHECK(scores.size() == positive.size());
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [scores](uint32_t a, uint32_t b) { return scores[a] < scores[b]; });
  double positives = 0;
  double rank_sum = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    double tied_positives = 0;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) {
      tied_positives += positive[order[end]] != 0 ? 1 : 0;
      ++end;
    }
    // Ranks begin + 1 ... end share their mean.
    rank_sum += tied_positives * 0.5 * static_cast<double>(begin + 1 + end);
    positives += tied_positives;
    begin = end;
  }
  const double negatives = static_cast<double>(order.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

void Predictions::add(std::span<const float> logits,
                      std::span<const int32_t> labels) {
  DTUNE_CHECK(logits.size() == labels.size() * static_cast<size_t>(classes_));
  for (const float value : logits) finite_ = finite_ && std::isfinite(value);
  logits_.insert(logits_.end(), logits.begin(), logits.end());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
}

std::span<const float> Predictions::row(size_t sample) const {
  const auto width = static_cast<size_t>(classes_);
  return std::span<const float>(logits_).subspan(sample * width, width);
}

double Predictions::accuracy() const {
  const double least = std::log(threshold_ / (1 - threshold_));
  int64_t correct = 0;
  for (size_t i = 0; i < labels_.size(); ++i) {
    const std::span<const float> values = row(i);
    const auto best =
        threshold_ == 0.5
            ? std::max_element(values.begin(), values.end()) - values.begin()
            : std::ptrdiff_t{log_odds(i, 1) >= least};
    correct += best == labels_[i] ? 1 : 0;
  }
  return static_cast<double>(correct) / static_cast<double>(labels_.size());
}

double Predictions::best_threshold(ThresholdRule rule) const {
  DTUNE_CHECK(classes_ == 2);
  std::vector<ScoredLabel> samples;
  for (size_t i = 0; i < labels_.size(); ++i) {
    samples.push_back({log_odds(i, 1), labels_[i] == 1});
  }
  const auto positives = std::ranges::count(labels_, 1);
  const bool has_both =
      positives > 0 && positives < std::ranges::ssize(labels_);
  if (rule == ThresholdRule::half || !has_both || !finite_) return 0.5;
  return best_cut(std::move(samples), rule == ThresholdRule::balanced);
}

double Predictions::loss() const {
  double sum = 0;
  for (size_t i = 0; i < labels_.size(); ++i) {
    const std::span<const float> values = row(i);
    sum += log_sum_exp(values, -1) - double{values[labels_[i]]};
  }
  return sum / static_cast<double>(labels_.size());
}

float Predictions::log_odds(size_t sample, int c) const {
  const std::span<const float> values = row(sample);
  return static_cast<float>(double{values[c]} - log_sum_exp(values, c));
}

std::optional<double> Predictions::auc() const {
  if (classes_ < 2 || !finite_) return std::nullopt;
  std::vector<float> scores(labels_.size());
  std::vector<uint8_t> positive(labels_.size());
  double sum = 0;
  int defined = 0;
  for (int c = classes_ == 2 ? 1 : 0; c < classes_; ++c) {
    for (size_t i = 0; i < labels_.size(); ++i) {
      scores[i] = log_odds(i, c);
      positive[i] = labels_[i] == c ? 1 : 0;
    }
    if (const std::optional<double> auc = roc_auc(scores, positive)) {
      sum += *auc;
      ++defined;
    }
  }
  if (defined == 0) return std::nullopt;
  return sum / defined;
}

std::map<std::string, double> Predictions::metrics(
    const std::string& prefix) const {
  std::map<std::string, double> result;
  if (count() == 0) return result;
  for (const PredictionsMetric& metric : kOfPredictions) {
    if (const std::optional<double> value = metric.of(*this)) {
      result[prefix + metric.name] = *value;
    }
  }
  return result;
}

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> words;
    for (const PredictionsMetric& metric : kOfPredictions) {
      words.emplace_back(metric.name);
    }
    return words;
  }();
  return names;
}

std::map<std::string, double> training_metrics(const LossTotals& sums) {
  std::map<std::string, double> result;
  if (sums.samples == 0) return result;
  for (const TrainingMetric& metric : kOfTraining) {
    result[metric.name] = metric.of(sums);
  }
  return result;
}

const std::vector<std::string>& step_metrics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> words;
    for (const std::string& name : metric_names()) {
      words.push_back("val_" + name);
    }
    for (const TrainingMetric& metric : kOfTraining) {
      words.emplace_back(metric.name);
    }
    return words;
  }();
  return names;
}

const std::vector<std::string>& cost_metrics() {
  static const std::vector<std::string> names = {"parameters", "latency_ms"};
  return names;
}

std::vector<std::string> measured_metrics() {
  std::vector<std::string> names = step_metrics();
  names.insert(names.end(), cost_metrics().begin(), cost_metrics().end());
  return names;
}

std::vector<std::string> all_metrics() {
  std::vector<std::string> names = step_metrics();
  for (const std::string& name : metric_names()) {
    names.push_back("test_" + name);
  }
  return names;
}

}  // namespace dtune
