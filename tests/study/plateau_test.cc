#include "dtune/study/plateau.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT: a test

namespace {

void add(Study& study, double value) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.state = TrialState::complete;
  trial.curve.push_back({1, {{"val_accuracy", value}}});
  study.trials.push_back(trial);
}

// Draws of a distribution with an exponential tail.
double draw(Rng& rng) { return -std::log(1 - rng.uniform()); }

}  // namespace

TEST_CASE("a few trials say nothing of those to come") {
  Study study;
  for (int i = 0; i < 9; ++i) add(study, 0.1 * i);
  CHECK_FALSE(chance_of_gain(study, 0.01, 0.2));
  add(study, 0.5);
  CHECK(chance_of_gain(study, 0.01, 0.2));
}

TEST_CASE("a search that finds nothing better any more has a small chance") {
  Study study;
  for (int i = 0; i < 20; ++i) add(study, 0.5 + 0.02 * i);
  CHECK(*chance_of_gain(study, 0.001, 0.2) > 0.2);  // it still rises
  for (int i = 0; i < 40; ++i) add(study, 0.88 + 1e-5 * (i % 7));
  CHECK(*chance_of_gain(study, 0.001, 0.2) < 0.05);
  for (int i = 0; i < 60; ++i) add(study, 0.88);  // all the same
  CHECK(*chance_of_gain(study, 0.001, 0.2) < 1e-6);
}

TEST_CASE("the predicted chance is the share that comes true") {
  constexpr int kSeeds = 2000;
  for (const double gain : {0.0, 0.5, 1.5}) {
    double told = 0;
    double true_share = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Rng rng(mix_seed({seed}));
      Study study;
      for (int i = 0; i < 60; ++i) add(study, draw(rng));
      told += *chance_of_gain(study, gain, 0.2) / kSeeds;
      const double best =
          *best_value(study.recipe.objective, *incumbent(study));
      double more = 0;
      for (int i = 0; i < 12; ++i) more = std::max(more, draw(rng));
      true_share += more > best + gain ? 1.0 / kSeeds : 0;
    }
    CAPTURE(gain);
    // Twelve more after sixty: 1/6 for any gain at all. Three standard errors
    // of the share, and the bias of an estimated scale.
    CHECK(told / true_share > 0.7);
    CHECK(told / true_share < 1.3);
  }
}

TEST_CASE("a goal to minimize counts as its mirror image") {
  Study up;
  Study down;
  down.recipe.objective.goal = Goal::minimize;
  for (int i = 0; i < 30; ++i) {
    const double value = std::sin(i);
    add(up, value);
    add(down, -value);
  }
  CHECK(*chance_of_gain(up, 0.01, 0.2) == *chance_of_gain(down, 0.01, 0.2));
}
