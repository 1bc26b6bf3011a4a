#include "dtune/cluster/winner.h"

#include "cluster/local_study.h"
#include "tuner/forwarding_scheduler.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Decides as `inner` does, and holds a trial for the best.
class Holding final : public ForwardingScheduler {
 public:
  Holding(std::unique_ptr<Scheduler> inner, Leader leader)
      : ForwardingScheduler(std::move(inner)), leader_(leader) {}
  std::optional<Leader> leader(const Study& /*study*/) const override {
    return leader_;
  }
  std::optional<Prediction> predict(const Study& /*study*/, const Trial& trial,
                                    int step) const override {
    const double mean = trial.id == leader_.trial ? 0.25 : others;
    return Prediction{step, mean, mean - 0.05, mean + 0.05};
  }
  double others = 0.2;  // what is expected of the other trials

 private:
  Leader leader_;
};

// Trial 1 has reported .3 and .2, trial 2 .5; trial 3 failed with .9.
Study reported() {
  Study study = toy::study(toy::recipe(3), "reported");
  for (int i = 0; i < 3; ++i) {
    Trial trial;
    trial.id = i + 1;
    trial.point = toy::point(0.1);
    trial.state = i == 2 ? TrialState::failed : TrialState::complete;
    trial.reason = i == 2 ? Reason::crashed : Reason::horizon;
    study.trials.push_back(trial);
  }
  const auto add = [&](TrialId trial, double value) {
    StepReport report;
    report.step = study.trial(trial).steps() + 1;
    report.metrics["val_accuracy"] = value;
    study.trial(trial).curve.push_back(report);
  };
  add(1, 0.3);
  add(1, 0.2);
  add(2, 0.5);
  add(3, 0.9);
  return study;
}

Winner winner(const Study& study, TrialId held, double others = 0.2) {
  Holding holding(make_scheduler(study.recipe, 1), Leader{held, 1});
  holding.others = others;
  return winner_of(study, holding);
}

}  // namespace

TEST_CASE("the winner of a search is what its scheduler expects most of") {
  const Study study = reported();
  const Winner held = winner(study, 1);
  CHECK(held.trial == 1);
  CHECK(held.why ==
        "trial 1 has the best expected val_accuracy, 0.25 at step 1 (0.3 was "
        "its best report); trial 2 reported 0.5, which the other reports do "
        "not support");
  CHECK(winner(study, 2).trial == 2);
  CHECK(winner(study, 2).why == "");
}

TEST_CASE("of trials that are expected to be equal the best report wins") {
  Study study = reported();
  CHECK(winner(study, 1, 0.2495).trial == 2);
  CHECK(winner(study, 1, 0.26).trial == 2);
  CHECK(winner(study, 1, 0.245).trial == 1);
  study.recipe.objective.goal = Goal::minimize;  // trial 1 has the best report
  CHECK(winner(study, 2, 0.2505).trial == 1);
  CHECK(winner(study, 2, 0.26).trial == 2);
}

TEST_CASE("a trial that reported as much as the winner is no outlier") {
  Study study = reported();
  study.trial(1).curve.front().metrics["val_accuracy"] = 0.5;
  const Trial* luckiest = incumbent(study);
  REQUIRE(luckiest != nullptr);
  const TrialId other = luckiest->id == 1 ? 2 : 1;
  CHECK(winner(study, other).why ==
        fmt::format("trial {} has the best expected val_accuracy, 0.25 at step "
                    "1 (0.5 was its best report); trial {} has the same best "
                    "report",
                    other, luckiest->id));
}

TEST_CASE("without an expectation the winner has the best report") {
  Study study = reported();
  CHECK(winner_of(study, *make_scheduler(study.recipe, 1)).trial == 2);
  CHECK(winner(study, 3).trial == 2);  // it failed
  study.recipe.stop.target = 0.45;     // which trial 2 has reached
  CHECK(winner(study, 1).trial == 2);
  study.recipe.stop.target = 0.55;
  CHECK(winner(study, 1).trial == 1);
  study.trials.clear();
  CHECK(winner(study, 1).trial == 0);
}

TEST_CASE("a study ships the trial that its scheduler expects most of") {
  for (const bool trains : {false, true}) {
    const TemporaryDirectory folder;
    Recipe recipe = toy::recipe(4);
    recipe.final_training.enabled = trains;
    toy::LocalStudy local(
        folder.path(), toy::unique("winner"), 2, recipe,
        {toy::point(0.2), toy::point(0.4), toy::point(0.3), toy::point(0.1)});
    local.scheduler =
        std::make_unique<Holding>(std::move(local.scheduler), Leader{3, 5});
    const StudyOutcome outcome = local.run();
    CHECK(outcome.state == StudyState::finished);
    CHECK(outcome.best == 3);
    const auto result =
        decode_final_result(local.store->load_study()->final_json);
    REQUIRE(result);
    CHECK(result->best == 3);
    CHECK_MESSAGE(result->chosen.find("trial 3 has the best expected") == 0,
                  result->chosen);
    if (!trains) continue;
    CHECK(local.study.trial(outcome.final_trial).point == toy::point(0.3));
  }
}

TEST_CASE("a winner near the best report goes on from its checkpoint") {
  for (const auto& [winner, steps] : {std::pair(3, 0), std::pair(4, 5)}) {
    const TemporaryDirectory folder;
    toy::LocalStudy local(
        folder.path(), toy::unique("contender"), 2, toy::recipe(4),
        {toy::point(0.2), toy::point(0.4), toy::point(0.3), toy::point(0.1)});
    local.scheduler = std::make_unique<Holding>(std::move(local.scheduler),
                                                Leader{winner, 5});
    int trained = 0;
    local.sink.at_report = [&](const Study& /*study*/, const Trial& trial,
                               const StepReport& /*report*/) {
      trained += trial.kind == TrialKind::final ? 1 : 0;
    };
    CHECK(local.run().best == winner);
    CHECK(trained == steps);
    CHECK_FALSE(std::filesystem::exists(folder.path() /
                                        "checkpoints/trial-2.checkpoint"));
  }
}
