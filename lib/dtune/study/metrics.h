// What is reported of a network's predictions: accuracy, loss, area under the
// ROC curve. Plain arrays, no LibTorch. Everything is summed in double and in
// the order of the samples, so equal logits give equal metrics to the last bit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtune {

enum class ThresholdRule;  // study/recipe.h

// Area under the ROC curve by ranks (Mann-Whitney U; ties count one half, as
// mid-ranks do: Hanley and McNeil 1982, doi 10.1148/radiology.143.1.7063747):
//   AUC = (sum of the ranks of the positives - P (P + 1) / 2) / (P N)
// Empty where there are no positives or no negatives. Scores must not be NaN.
// O(n log n).
std::optional<double> roc_auc(std::span<const float> scores,
                              std::span<const uint8_t> positive);

// The predictions of a split, in order. Grows by batches.
class Predictions {
 public:
  explicit Predictions(int classes) : classes_(classes) {}

  // logits: [labels.size(), classes] row by row.
  // REQUIRES: 0 <= label < classes.
  void add(std::span<const float> logits, std::span<const int32_t> labels);

  int64_t count() const { return static_cast<int64_t>(labels_.size()); }
  bool finite() const { return finite_; }  // no NaN, no infinity in a logit

  // Share of samples whose largest logit is the label's; among equal logits
  // the first counts. With a threshold other than 0.5: of those whose answer is
  // the label.
  double accuracy() const;

  // Two classes: from which probability on class 1 is the answer.
  // REQUIRES: 0 < threshold < 1.
  void set_threshold(double threshold) { threshold_ = threshold; }

  // The threshold that has the largest accuracy, or mean of both classes'
  // accuracies, on these samples: of neighbouring probabilities between which
  // it is largest, the middle of the pair that is farthest apart in log-odds
  // (the least pair of equal ones). 0.5 where that is no worse than any other,
  // where a class has no sample, and for ThresholdRule::half.
  // REQUIRES: two classes. O(n log n).
  double best_threshold(ThresholdRule rule) const;

  // Mean negative log-likelihood, -mean log softmax(logits)[label], whatever
  // loss the training uses: so trials with different label smoothing or class
  // weights can be compared.
  double loss() const;

  // Two classes: AUC of class 1. More: one against the rest, mean over the
  // classes that have both positives and negatives. The score of a class is
  // its log-odds, logit[c] - log sum_{k != c} exp(logit[k]): the order of the
  // softmax probabilities, without their ties where they round to 1.
  // Empty where no class has both.
  std::optional<double> auc() const;

  // All of metric_names() with the prefix, save those that are not defined for
  // these predictions; nothing where there is no sample.
  std::map<std::string, double> metrics(const std::string& prefix) const;

 private:
  std::span<const float> row(size_t sample) const;
  float log_odds(size_t sample, int c) const;

  int classes_;
  double threshold_ = 0.5;
  bool finite_ = true;
  std::vector<float> logits_;
  std::vector<int32_t> labels_;
};

// The metrics of predictions: "accuracy", "loss", ... metrics.cc has the one
// table.
const std::vector<std::string>& metric_names();

// What samples add to the meters of a step's training. Sums in double, so that
// they do not depend on which process adds.
struct LossTotals {
  double loss = 0;      // sum of the samples' weighted losses
  double weight = 0;    // sum of their weights: the mean loss is loss / weight
  int64_t correct = 0;  // samples whose largest logit is their label's
  int64_t samples = 0;

  LossTotals& operator+=(const LossTotals& more) {
    loss += more.loss;
    weight += more.weight;
    correct += more.correct;
    samples += more.samples;
    return *this;
  }
};

// "train_loss", ...; nothing where there is no sample.
std::map<std::string, double> training_metrics(const LossTotals& sums);

// What a network costs, measured where a recipe names it: "parameters", how
// many numbers are trained, and "latency_ms", the median time of an answer to
// one image on the trial's device.
const std::vector<std::string>& cost_metrics();

// What a step reports, which an objective may name ("val_accuracy",
// "train_loss"); with what a network costs; and with the final test's, all that
// there is.
const std::vector<std::string>& step_metrics();
std::vector<std::string> measured_metrics();
std::vector<std::string> all_metrics();

}  // namespace dtune
