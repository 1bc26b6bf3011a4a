#include "dtune/cluster/coordinator.h"

#include "cluster/local_study.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("a study runs its trials, trains the winner and tests it once") {
  TemporaryDirectory folder;
  toy::LocalStudy local(
      folder.path(), toy::unique("happy"), 2, toy::recipe(4),
      {toy::point(0.2), toy::point(0.9), toy::point(0.4), toy::point(0.1)});
  const StudyOutcome outcome = local.run();
  CHECK(outcome.state == StudyState::finished);
  CHECK(outcome.best == 2);
  CHECK(outcome.final_trial == 5);
  CHECK(local.final_metrics().at("test_accuracy") == doctest::Approx(0.45));
  CHECK(read_file(folder.path() / "model") == "2");  // all slots' threads
  const std::vector<Trial> stored = local.store->load_trials();
  REQUIRE(stored.size() == 5);
  for (const Trial& trial : stored) {
    CHECK(trial.state == TrialState::complete);
    CHECK(trial.steps() == 5);
  }
  CHECK(local.store->load_study()->state == StudyState::finished);
  CHECK(local.sink.notices == "");
  CHECK(toy::leftovers(toy::unique("happy")).empty());
}

TEST_CASE("a trial whose last report is all that was stored is decided upon") {
  TemporaryDirectory folder;
  Recipe recipe = toy::recipe(2);
  recipe.final_training.enabled = false;
  {
    // As a coordinator leaves it that is killed between two commits.
    const auto store = open_sqlite_store(folder.path() / "study.db",
                                         StoreMode::create_or_open);
    StudyRow row;
    row.id = toy::unique("undecided");
    row.horizon = 5;
    row.metric = "val_accuracy";
    store->put_study(row);
    Trial trial;
    trial.id = 1;
    trial.point = toy::point(0.5);
    trial.state = TrialState::running;
    trial.attempt = 1;
    trial.target_step = 5;
    store->put_trial(trial);
    for (int step = 1; step <= 5; ++step) {
      StepReport report;
      report.step = step;
      report.metrics = {{"val_accuracy", 0.1 * step}};
      store->put_report(1, 1, report, {});
    }
    store->flush();
  }
  toy::LocalStudy local(folder.path(), toy::unique("undecided"), 1, recipe,
                        {toy::point(0.5)});
  local.replays = false;
  CHECK(local.run().state == StudyState::finished);
  REQUIRE(local.study.trials.size() == 2);
  CHECK(local.study.trial(1).state == TrialState::complete);
  CHECK(local.study.trial(1).attempt == 1);
  CHECK(local.study.trial(2).state == TrialState::complete);
}
