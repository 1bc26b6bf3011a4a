#include "dtune/review/findings.h"

#include "../report/sample_study.h"
#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune {
namespace {

bool finds(const Study& study, const std::string& part,
           const StudyFacts& facts = {}) {
  for (const StudyProblem& finding : find_problems(study, facts)) {
    if ((finding.what + finding.remedy).find(part) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// Complete trials whose curves end around `ends`, with noise between steps.
Study study_of(const std::vector<double>& ends, double noise) {
  Study study = test::sample_study();
  study.trials.clear();
  study.horizon = 12;
  Rng rng(3);
  for (const double end : ends) {
    std::vector<double> curve;
    for (int step = 1; step <= study.horizon; ++step) {
      curve.push_back(end + noise * (rng.uniform() - 0.5));
    }
    study.trials.push_back(
        test::sample_trial(static_cast<TrialId>(study.trials.size()) + 1,
                           TrialState::complete, Reason::horizon, curve));
  }
  return study;
}

}  // namespace

TEST_CASE("a best value at the edge of its range is said") {
  Study study = test::sample_study();
  CHECK_FALSE(finds(study, "end of its range"));
  study.trials[3].point["lr"] = 0.5;
  CHECK(finds(study, "lr of the best trial, 0.5, is at the upper end"));
  // No dropout is below 0, but an L2 may be below 1e-6.
  study.trials[3].point = test::sample_point(0.01, 1e-6, 0.0);
  CHECK(finds(study, "l2 of the best trial, 1e-06, is at the lower end"));
  CHECK_FALSE(finds(study, "dropout of the best"));
}

TEST_CASE(
    "differences that are smaller than the noise between steps are said") {
  CHECK(finds(study_of({0.90, 0.90, 0.90, 0.7}, 0.02), "may be chance"));
  CHECK_FALSE(finds(study_of({0.95, 0.85, 0.75, 0.65}, 0.02), "may be chance"));
  // Uniform noise of width 0.02 has a deviation of 0.0058; its second
  // differences are nearly normal.
  const auto noise = step_noise(study_of({0.9, 0.8, 0.7, 0.6}, 0.02));
  REQUIRE(noise.has_value());
  CHECK(*noise == doctest::Approx(0.0058).epsilon(0.35));
  CHECK_FALSE(step_noise(test::sample_study()).has_value());
}

TEST_CASE("failures are grouped by their cause, with the first and a remedy") {
  const Study study = test::sample_study();
  StudyFacts facts = test::sample_facts();
  CHECK(finds(study,
              "1 trial failed (diverged), first trial 3: val_accuracy is nan.",
              facts));
  CHECK(finds(study, "Lower the upper end of the learning rate", facts));
  CHECK(finds(study, "dtune show fashion.db 5", facts));
  Study program = study;
  program.recipe.command.emplace();
  CHECK_FALSE(finds(program, "train.clip_norm", facts));
  CHECK(finds(program, "dtune show fashion.db 3", facts));
}

TEST_CASE("few full trainings are said") {
  Study study = test::sample_study();
  CHECK_FALSE(
      finds(study, "to the last step"));  // few trials are a small study
  for (TrialId id = 8; id < 20; ++id) {
    study.trials.push_back(
        test::sample_trial(id, TrialState::cut, Reason::rung, {0.3}));
  }
  CHECK(finds(study, "2 of 18 trials were trained to the last step, 4"));
}

}  // namespace dtune
