// Where a point is likely to meet the recipe's requirements (`require:`), and
// the bounds that a decision adds (`objective.trade_off`).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtune/study/study.h"
#include "dtune/surrogate/gaussian_process.h"
#include "dtune/tuner/model_space.h"

namespace dtune {

// One Gaussian process for each required metric, of what trials reported of it
// last; the requirements are taken for independent (Gardner et al. 2014,
// "Bayesian optimization with inequality constraints", ICML, eq. 4). Depends on
// the study alone; keeps what was fitted until more trials have reported. Not
// thread-safe.
class Feasibility {
 public:
  explicit Feasibility(const Recipe& recipe);
  Feasibility(const Feasibility&) = delete;  // model_space_ refers to space_
  Feasibility& operator=(const Feasibility&) = delete;

  // Nothing is required: everything is feasible.
  bool empty() const { return active_.empty(); }
  // From now on these are required beside the recipe's, in place of those of
  // the last call.
  void bound(const std::vector<Expectation>& bounds);
  // Fits anew where trials have reported since. Of more than 200 trials, some
  // evenly spread.
  void update(const Study& study);
  // ln P(the point meets all); 0 before three trials have reported.
  double log_chance(const Point& point) const;
  // The same at the coordinates of a ModelSpace.
  double log_chance_at(std::span<const double> coordinates) const;

 private:
  struct Metric {
    std::string name;
    std::unique_ptr<GaussianProcess> process;  // null: too few reports
    double noise = 0;
    size_t reports = 0;  // of all trials, when it was fitted
  };

  SearchSpace space_;
  ModelSpace model_space_;  // of space_
  std::vector<Expectation> require_;
  std::vector<Expectation> active_;  // these and what was added
  std::vector<Metric> metrics_;
};

}  // namespace dtune
