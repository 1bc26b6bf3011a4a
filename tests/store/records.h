// Records for tests of the store, with every field different from its default.
#pragma once

#include <cmath>
#include <limits>

#include "dtune/store/trial_store.h"

namespace dtune::test {

inline StudyRow make_study(const std::string& id = "f00d") {
  StudyRow row;
  row.id = id;
  row.name = "fashion";
  row.recipe_yaml = "study: fashion\n# 'quotes', \"quotes\", \xc3\xa9\n";
  row.recipe_hash = "0123456789abcdef";
  row.recipe_path = "/home/me/fashion.yaml";
  row.state = StudyState::interrupted;
  row.horizon = 12;
  row.searched_seconds = 61.25;
  row.created_ms = 1'700'000'000'123;
  row.budget_trials = 40;
  row.budget_seconds = 600;
  row.budget_steps = 7;
  row.final_json = R"({"test_accuracy":0.91})";
  row.metric = "val_accuracy";
  row.goal = Goal::maximize;
  row.sessions = 3;
  return row;
}

inline Trial make_trial(TrialId id) {
  Trial trial;
  trial.id = id;
  trial.kind = TrialKind::final;
  trial.point = {{"lr", 0.1},
                 {"width", int64_t{32}},
                 {"nesterov", true},
                 {"l2", 1.0},
                 {"optimizer", std::string("sgd")}};
  trial.unit = {0.1, 1.0 / 3.0, 0.5};
  trial.seed = 0xfedcba9876543210;
  trial.state = TrialState::paused;
  trial.reason = Reason::rung;
  trial.detail = "below 3 of 9 at step 1";
  trial.attempt = 2;
  trial.failures = 1;
  trial.target_step = 3;
  trial.node = "node-a";
  trial.slot = 1;
  trial.created_ms = 1'700'000'000'200;
  trial.started_ms = 1'700'000'000'300;
  trial.ended_ms = 1'700'000'000'400;
  trial.checkpoint = "/tmp/trial-1.ckpt";
  trial.checkpoint_step = 2;
  return trial;
}

inline StepReport make_report(int step, double accuracy) {
  StepReport report;
  report.step = step;
  report.metrics = {{"val_accuracy", accuracy}, {"val_loss", 1.0 / step}};
  report.seconds = 0.1 * step;
  report.checkpoint_seconds = 0.01 * step;
  report.sequence = 10 + step;
  return report;
}

}  // namespace dtune::test
