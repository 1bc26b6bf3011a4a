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
  CHECK(outcome.final_metrics.at("test_accuracy") == doctest::Approx(0.45));
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
