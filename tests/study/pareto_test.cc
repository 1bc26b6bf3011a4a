#include "dtune/study/pareto.h"

#include <cmath>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

void add(Study& study, double accuracy, double latency,
         TrialState state = TrialState::complete) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.state = state;
  trial.curve.push_back(
      {1, {{"val_accuracy", accuracy}, {"latency_ms", latency}}});
  study.trials.push_back(trial);
}

Study study_of_two() {
  Study study;
  study.recipe.objective.trade_offs = {{"latency_ms", Goal::minimize}};
  return study;
}

std::vector<TrialId> ids(const Study& study) {
  std::vector<TrialId> all;
  for (const TradedOff& one : pareto_front(study)) all.push_back(one.trial->id);
  return all;
}

}  // namespace

TEST_CASE("the front has the trials that none is better than in everything") {
  Study study = study_of_two();
  add(study, 0.80, 3);
  add(study, 0.90, 9);
  add(study, 0.85, 5);
  add(study, 0.84, 5);  // as fast as 3, and worse
  add(study, 0.79, 3.5);
  CHECK(ids(study) == std::vector<TrialId>{2, 3, 1});
}

TEST_CASE("equal trials are all on the front, those without a metric on none") {
  Study study = study_of_two();
  add(study, 0.8, 3);
  add(study, 0.8, 3);
  add(study, 0.9, std::nan(""));
  add(study, 0.95, 1, TrialState::failed);
  CHECK(ids(study) == std::vector<TrialId>{1, 2});
}

TEST_CASE("without other metrics the front is the best trial") {
  Study study;
  add(study, 0.8, 3);
  add(study, 0.9, 3);
  CHECK(ids(study) == std::vector<TrialId>{2});
}

TEST_CASE("a step beyond a bound does not count as a result") {
  Study study;
  study.recipe.objective.require = {{.metric = "latency_ms",
                                     .comparison = Comparison::less_equal,
                                     .bound = 5}};
  add(study, 0.9, 9);
  CHECK(incumbent(study) == nullptr);
  add(study, 0.8, 4);
  add(study, 0.7, 4);
  REQUIRE(incumbent(study) != nullptr);
  CHECK(incumbent(study)->id == 2);
  CHECK(best_report(study.recipe.objective, study.trial(1)) == nullptr);
  // One that does not report the metric is beyond it.
  study.trial(2).curve[0].metrics.erase("latency_ms");
  CHECK(incumbent(study)->id == 3);
}
