// What a study's own reports and the recorded studies of others say together
// about points that were not tried and steps that were not trained.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/study/study.h"
#include "dtune/surrogate/process.h"

namespace dtune {

// Metrics as the model sees them: larger is better, within [0, 1]. Accuracies
// and other metrics in [0, 1] are taken as they are; a loss becomes
// 1 / (1 + loss); anything else 1/2 + atan(x) / pi. All maps rise with the
// objective, so ranks are kept.
double model_value(const ObjectiveSpec& objective, double value);

// A point after `step` steps.
struct ModelQuery {
  std::vector<double> unit;
  int step = 1;
};

// Members that predict, each with the trust that it has earned.
struct MemberTrust {
  std::string name;   // "learnt" or "plain"
  double weight = 0;  // sums to 1 over the members
};

// Brings itself up to date with a study, report by report in the order of their
// arrival, so that what it predicts depends on the reports alone and not on
// when it was asked. Not thread-safe.
//
// Members: the freeze-thaw process with the learnt prior, and without. Before a
// report is taken in, each member's predictive density of it counts towards its
// trust: w_k ~ prior_k exp(sum log p_k), sums fading by 2% a report.
class SurrogateModel {
 public:
  // `prior` null (commands, spaces without lr, l2 and dropout): plain only.
  SurrogateModel(const Recipe& recipe, int horizon,
                 std::shared_ptr<const CubePrior> prior);
  ~SurrogateModel();

  // Takes in what is new. Where a trial was begun anew, starts over.
  void update(const Study& study);

  // Steps at which trials are looked at: shares 1/51, 2/51, 4/51, ... of the
  // horizon, each a whole step, the horizon last.
  const std::vector<int>& ladder() const { return ladder_; }
  // The first step of the ladder above `step`; the horizon at least.
  int next_step(int step) const;

  bool empty() const { return reports_ == 0; }
  // The largest value reported so far; REQUIRES !empty().
  double best() const { return best_; }

  // ln P(value of the point at the step > threshold), by all members.
  // `pending`: points being trained now, taken to end at their expected value.
  std::vector<double> log_tail(std::span<const ModelQuery> queries,
                               double threshold,
                               std::span<const ModelQuery> pending = {}) const;
  // Mean and deviation of the mixture.
  Gaussian predict(const ModelQuery& query) const;

  std::vector<MemberTrust> trust() const;

  // The point that the learnt prior likes best, in the unit cube, if there is a
  // prior; parameters that it does not know are 1/2.
  std::optional<std::vector<double>> prior_best() const;

 private:
  struct Member {
    std::string name;
    FreezeThawProcess process;
    double log_weight = 0;
    int since_fit = 0;
  };
  void take(const ProcessObservation& observation);
  ProcessInput input(std::span<const double> unit, int step) const;
  std::vector<Member> fresh_members() const;
  bool on_ladder(int step) const;

  const SearchSpace space_;
  const ObjectiveSpec objective_;
  const int horizon_;
  const TrainSpec train_;
  const double fixed_dropout_;
  std::shared_ptr<const CubePrior> prior_;
  std::vector<int> ladder_;
  std::vector<Member> members_;
  std::vector<int> taken_;         // by trial: reports taken in
  std::vector<Attempt> attempts_;  // by trial
  int64_t reports_ = 0;
  double best_ = 0;
  double worst_ = 1;
};

}  // namespace dtune
