// A small study for tests of reports: seven trials in every kind of state.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "dtune/report/facts.h"
#include "dtune/study/study.h"

namespace dtune::test {

inline Point sample_point(double lr, double l2, double dropout) {
  return {{"lr", lr}, {"l2", l2}, {"dropout", dropout}};
}

inline Trial sample_trial(TrialId id, TrialState state, Reason reason,
                          const std::vector<double>& accuracies) {
  Trial trial;
  trial.id = id;
  trial.state = state;
  trial.reason = reason;
  trial.attempt = 1;
  trial.seed = 1000 + static_cast<uint64_t>(id);
  trial.point = sample_point(0.01 * static_cast<double>(id), 1e-5, 0.2);
  trial.node = "box";
  trial.slot = 0;
  for (const double accuracy : accuracies) {
    StepReport report;
    report.step = static_cast<int>(trial.curve.size()) + 1;
    report.metrics = {{"val_accuracy", accuracy}, {"val_loss", 1 - accuracy}};
    report.seconds = 2.5;
    trial.curve.push_back(report);
  }
  return trial;
}

inline Study sample_study() {
  Study study;
  study.id = "f00d";
  study.recipe.study = "fashion";
  study.recipe.seed = 7;
  study.recipe.space =
      SearchSpace({{"lr", "train.lr", ParameterKind::real, 1e-4, 0.5, true},
                   {"l2", "train.l2", ParameterKind::real, 1e-6, 1e-2, true},
                   {"dropout", "model.dropout", ParameterKind::real, 0, 0.6}});
  study.horizon = 4;
  study.searched_seconds = 83;
  study.state = StudyState::finished;
  study.recipe_yaml = "study: fashion\n";
  study.created_ms = 1'700'000'000'000;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  study.trials = {
      sample_trial(1, TrialState::cut, Reason::rung, {0.6}),
      sample_trial(2, TrialState::complete, Reason::horizon,
                   {0.7, 0.8, 0.875, 0.87}),
      sample_trial(3, TrialState::failed, Reason::diverged, {0.1, kNan}),
      sample_trial(4, TrialState::complete, Reason::horizon,
                   {0.75, 0.85, 0.88, 0.9125}),
      sample_trial(5, TrialState::failed, Reason::crashed, {}),
      sample_trial(6, TrialState::cut, Reason::rung, {0.5}),
  };
  study.trials[2].detail = "val_accuracy is nan";
  study.trials[4].detail = "killed by signal 9\x1b[2J\nOOM?";
  Trial last = sample_trial(7, TrialState::complete, Reason::horizon,
                            {0.76, 0.86, 0.89, 0.914});
  last.kind = TrialKind::final;
  study.trials.push_back(last);
  return study;
}

inline StudyFacts sample_facts() {
  StudyFacts facts;
  facts.database = "fashion.db";
  facts.recipe_path = "/home/me/fashion.yaml";
  facts.budget_trials = 6;
  facts.budget_seconds = 600;
  FinalResult result;
  result.best = 4;
  result.final_trial = 7;
  result.metrics = {
      {"val_accuracy", 0.914}, {"test_accuracy", 0.9101}, {"test_loss", 0.25}};
  result.model = "fashion.files/model.safetensors";
  result.why = "all 6 trials of the budget are done";
  facts.result = result;
  return facts;
}

}  // namespace dtune::test
