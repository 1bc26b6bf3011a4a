#include "dtune/tuner/candidates.h"

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/tuner/samplers.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Trial& begin(Study& study, double lr) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = {{"lr", lr}};
  study.trials.push_back(trial);
  return study.trials.back();
}

}  // namespace

TEST_CASE("equal points have equal keys, others do not") {
  const Point point = {{"a", 0.0}, {"b", std::string("x")}};
  CHECK(hash_point(point) ==
        hash_point({{"a", -0.0}, {"b", std::string("x")}}));
  CHECK(hash_point(point) != hash_point({{"a", 0.0}, {"b", std::string("y")}}));
  CHECK(hash_point(point) != hash_point({{"a", int64_t{0}}}));
  CHECK(hash_point({{"a", true}}) != hash_point({{"a", int64_t{1}}}));
  CHECK(hash_point({}) != hash_point({{"a", 0.0}}));
}

TEST_CASE("points are taken as trials are added") {
  Study study = make_study(cube_recipe("sobol", "fifo", 1, 9), 9);
  TakenPoints taken;
  taken.update(study);
  CHECK_FALSE(taken.contains({{"lr", 0.5}}));
  begin(study, 0.5).state = TrialState::failed;
  begin(study, 0.25).kind = TrialKind::final;
  CHECK_FALSE(taken.update(study));
  CHECK(taken.contains({{"lr", 0.5}}));
  CHECK(taken.contains({{"lr", 0.25}}));
  CHECK_FALSE(taken.contains({{"lr", 0.75}}));
  CHECK(taken.proposals() == 1);
}

TEST_CASE("of another study nothing is remembered") {
  Study study = make_study(cube_recipe("sobol", "fifo", 1, 9), 9);
  begin(study, 0.5);
  begin(study, 0.25);
  const Study before = study;
  TakenPoints taken;
  taken.update(study);
  SUBCASE("another name") { study.id = "another"; }
  SUBCASE("fewer trials") { study.trials.pop_back(); }
  SUBCASE("another trial in place of the last") {
    study.trials.pop_back();
    begin(study, 0.125);
    begin(study, 0.0625);
  }
  study.trials.front().point = {{"lr", 0.75}};
  CHECK(taken.update(study));
  CHECK_FALSE(taken.contains({{"lr", 0.5}}));
  CHECK(taken.contains({{"lr", 0.75}}));
  CHECK(taken.proposals() == std::ssize(study.trials));
  CHECK(taken.update(before));
  CHECK(taken.contains({{"lr", 0.5}}));
}

TEST_CASE("the recipe's points begin anew with another study") {
  Recipe recipe = cube_recipe("sobol", "fifo", 1, 9);
  recipe.points = {{{"lr", 0.5}}, {{"lr", 0.25}}};
  const auto sampler = make_listed_sampler(make_sobol_sampler(recipe));
  Study study = make_study(recipe, 9);
  CHECK(sampler->propose(study, 1)->point == recipe.points[0]);
  begin(study, 0.5);
  CHECK(sampler->propose(study, 2)->point == recipe.points[1]);
  begin(study, 0.25);
  CHECK_FALSE(sampler->propose(study, 3)->listed);
  study.id = "another";
  study.trials.clear();
  CHECK(sampler->propose(study, 1)->point == recipe.points[0]);
}
