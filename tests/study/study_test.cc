#include "dtune/study/study.h"

#include <cmath>
#include <limits>
#include <memory>

#include <doctest/doctest.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StepReport report(int step, double accuracy) {
  StepReport made;
  made.step = step;
  made.metrics = {{"val_accuracy", accuracy}, {"val_loss", 1 - accuracy}};
  return made;
}

Trial trial(TrialId id, std::vector<double> accuracies) {
  Trial made;
  made.id = id;
  for (const double accuracy : accuracies) {
    made.curve.push_back(report(made.steps() + 1, accuracy));
  }
  return made;
}

const ObjectiveSpec kAccuracy;
const ObjectiveSpec kLoss{.metric = "val_loss", .goal = Goal::minimize};

TEST_CASE("every state and reason reads back from its word") {
  for (int i = 0; i <= int(TrialState::invalid); ++i) {
    const auto state = static_cast<TrialState>(i);
    CHECK(parse_trial_state(to_string(state)) == state);
  }
  for (int i = 0; i <= int(Reason::scheduled); ++i) {
    const auto reason = static_cast<Reason>(i);
    CHECK(parse_reason(to_string(reason)) == reason);
  }
  for (int i = 0; i <= int(StudyState::failed); ++i) {
    const auto state = static_cast<StudyState>(i);
    CHECK(parse_study_state(to_string(state)) == state);
  }
  for (int i = 0; i <= int(DecisionMaker::coordinator); ++i) {
    const auto maker = static_cast<DecisionMaker>(i);
    CHECK(parse_decision_maker(to_string(maker)) == maker);
  }
  CHECK_THROWS_AS(parse_decision_maker("oracle"), Error);
  CHECK(to_string(TrialState::timed_out) == std::string("timed_out"));
  CHECK(to_string(Reason::out_of_memory) == std::string("out_of_memory"));
}

TEST_CASE("a word of a newer database is a store error") {
  CHECK_THROWS_WITH_AS(parse_trial_state("dreaming"),
                       "unknown trial state 'dreaming' (was the database "
                       "written by a newer dtune?)",
                       Error);
  CHECK_THROWS_AS(parse_reason(""), Error);
  CHECK_THROWS_AS(parse_study_state("Running"), Error);
  try {
    parse_reason("mood");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::store);
  }
}

TEST_CASE("a trial is over in its terminal states alone") {
  CHECK_FALSE(is_terminal(TrialState::waiting));
  CHECK_FALSE(is_terminal(TrialState::running));
  CHECK_FALSE(is_terminal(TrialState::paused));
  for (const auto state :
       {TrialState::complete, TrialState::cut, TrialState::failed,
        TrialState::lost, TrialState::timed_out, TrialState::invalid}) {
    CHECK(is_terminal(state));
  }
}

TEST_CASE("an objective to be minimised turns its sign") {
  CHECK(objective_value(kAccuracy, report(1, 0.75)) == 0.75);
  CHECK(objective_value(kLoss, report(1, 0.75)) == -0.25);
}

TEST_CASE("a metric that is missing or not finite is no value") {
  CHECK_FALSE(objective_value({.metric = "val_auc"}, report(1, 0.5)));
  CHECK_FALSE(objective_value(kAccuracy, report(1, kNan)));
  CHECK_FALSE(objective_value(kAccuracy, report(1, HUGE_VAL)));
}

TEST_CASE("a study without a result says which bounds were not met") {
  Study study;
  study.trials = {trial(1, {.5, .6}), trial(2, {.7})};
  study.recipe.objective.require = {
      {"val_loss", Comparison::less_equal, .1, "<= 0.1", ""}};
  CHECK(best_report(study.recipe.objective, study.trials[0]) == nullptr);
  CHECK(why_no_report(study) ==
        "no step of the 2 trials that reported val_accuracy meets 'require: "
        "val_loss <= 0.1'");
  study.recipe.objective.require.push_back(
      {"size", Comparison::less_equal, 9, "<= 9", ""});
  CHECK(why_no_report(study) ==
        "no step of the 2 trials that reported val_accuracy meets 'require: "
        "val_loss <= 0.1, size <= 9': none reported size");
  study.recipe.command = CommandSpec{};
  CHECK(why_no_report(study).ends_with(
      ": none reported size (a step ends with the line of val_accuracy: print "
      "it there or before)"));
  study.trials = {trial(1, {kNan})};
  CHECK(why_no_report(study) == "no trial has a finite val_accuracy");
}

TEST_CASE("best, last and given steps are found on a curve") {
  const Trial one = trial(1, {0.1, 0.6, kNan, 0.5});
  CHECK(best_value(kAccuracy, one) == 0.6);
  CHECK(last_value(kAccuracy, one) == 0.5);
  CHECK(value_at(kAccuracy, one, 1) == 0.1);
  CHECK_FALSE(value_at(kAccuracy, one, 3));
  CHECK_FALSE(value_at(kAccuracy, one, 5));
  CHECK_FALSE(value_at(kAccuracy, one, 0));
  const Trial empty = trial(2, {});
  CHECK_FALSE(best_value(kAccuracy, empty));
  CHECK_FALSE(last_value(kAccuracy, empty));
}

TEST_CASE("the incumbent is the best search trial, the earlier of equals") {
  Study study;
  CHECK(incumbent(study) == nullptr);
  study.trials = {trial(1, {kNan}), trial(2, {0.3, 0.7}), trial(3, {0.7}),
                  trial(4, {0.9})};
  study.trials[3].kind = TrialKind::final;
  REQUIRE(incumbent(study) != nullptr);
  CHECK(incumbent(study)->id == 2);
  study.recipe.objective = kLoss;
  CHECK(incumbent(study)->id == 2);
}

TEST_CASE("the final training spends no steps of the budget") {
  Study study;
  study.trials = {trial(1, {0.1, 0.2}), trial(2, {0.1}), trial(3, {0.9, 0.9})};
  study.trials[2].kind = TrialKind::final;
  CHECK(steps_spent(study) == 3);
}

TEST_CASE("the horizon counts steps of epochs or of samples") {
  Recipe recipe;
  recipe.train.epochs = 12;
  CHECK(horizon_steps(recipe, 54000) == 12);
  recipe.train.epochs = 2.5;
  CHECK(horizon_steps(recipe, 54000) == 3);
  recipe.train.step_samples = 9000;
  CHECK(horizon_steps(recipe, 54000) == 15);
  recipe.train.step_samples = 54000 * 10;
  CHECK(horizon_steps(recipe, 54000) == 1);
  // 0.3 * 1000 / 100 is a little more than 3 in floating point.
  recipe.train.epochs = 0.3;
  recipe.train.step_samples = 100;
  CHECK(horizon_steps(recipe, 1000) == 3);
  recipe.train.epochs = 1e6;
  recipe.train.step_samples = 1;
  CHECK(horizon_steps(recipe, 100'000'000) == kOpenHorizon);
}

TEST_CASE("levels of images are steps, each of twice the images") {
  Recipe recipe;
  CHECK(step_share(recipe, 1, 12) == 1);
  CHECK(share_until(recipe, 12, 12) == 12);
  recipe.fidelity = {FidelityKind::data_limit, 4};
  CHECK(horizon_steps(recipe, 1000) == 4);
  CHECK(step_share(recipe, 1, 4) == 0.125);
  CHECK(step_share(recipe, 3, 4) == 0.5);
  CHECK(step_share(recipe, 4, 4) == 1);
  CHECK(step_share(recipe, 1, 1) == 1);
  CHECK(share_until(recipe, 0, 4) == 0);
  CHECK(share_until(recipe, 2, 4) == 0.375);
  CHECK(share_until(recipe, 4, 4) == 1.875);
  CHECK(share_until(recipe, 1, 1) == 1);
}

TEST_CASE("a command's horizon is what it says, or open") {
  CommandSpec command;
  // On the heap: g++ 12 takes what an optional on the stack holds for unset.
  const auto recipe = std::make_unique<Recipe>();
  recipe->command = command;
  CHECK(horizon_steps(*recipe, 0) == kOpenHorizon);
  recipe->command->steps = 20;
  CHECK(horizon_steps(*recipe, 0) == 20);
}

TEST_CASE("kinds of trials have words") {
  for (const TrialKind kind :
       {TrialKind::search, TrialKind::final, TrialKind::repeat}) {
    CHECK(parse_trial_kind(to_string(kind)) == kind);
  }
  CHECK(parse_trial_kind("of a later dtune") == TrialKind::search);
}

}  // namespace
}  // namespace dtune
