#include "tuner/simulation.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/tuner/factory.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

std::string plan(const Recipe& recipe, int horizon) {
  return fmt::format(
      "{}",
      fmt::join(make_scheduler(recipe, horizon)->describe_plan(recipe, horizon),
                "\n"));
}

}  // namespace

TEST_CASE("the plan of asha lists its rungs and what they cost") {
  CHECK(plan(cube_recipe("sobol", "asha", 0, 40), 12) ==
        "rung 1: 40 trials to step 1\n"
        "rung 2: about 13 trials to step 3\n"
        "rung 3: about 4 trials to step 9\n"
        "rung 4: about 1 trial to step 12\n"
        "about 93 steps in all, 19% of training 40 trials to the end");
}

TEST_CASE("the modes of asha differ in where and how hard they decide") {
  Recipe recipe = cube_recipe("sobol", "asha", 0, 40);
  recipe.scheduler.options["mode"] = Value("aggressive");
  CHECK(plan(recipe, 48) ==
        "rung 1: 40 trials to step 2\n"
        "rung 2: about 10 trials to step 8\n"
        "rung 3: about 2 trials to step 32\n"
        "rung 4: about 1 trial to step 48\n"
        "about 204 steps in all, 11% of training 40 trials to the end");
  recipe.scheduler.options["mode"] = Value("conservative");
  CHECK(plan(recipe, 48) ==
        "rung 1: 40 trials to step 8\n"
        "rung 2: about 20 trials to step 16\n"
        "rung 3: about 10 trials to step 32\n"
        "rung 4: about 5 trials to step 48\n"
        "about 720 steps in all, 38% of training 40 trials to the end");
}

TEST_CASE("the plan of hyperband lists its brackets") {
  CHECK(plan(cube_recipe("sobol", "hyperband", 0, 40), 9) ==
        "bracket 1: 24 trials to step 1, about 8 trials to step 3, about 2 "
        "trials to step 9\n"
        "bracket 2: 10 trials to step 3, about 3 trials to step 9\n"
        "bracket 3: 6 trials to step 9\n"
        "about 154 steps in all, 43% of training 40 trials to the end");
  CHECK(plan(cube_recipe("sobol", "hyperband", 0, 1), 9) ==
        "bracket 1: 1 trial to step 1, about 1 trial to step 3, about 1 trial "
        "to step 9\n"
        "about 9 steps in all, 100% of training 1 trial to the end");
  CHECK(plan(cube_recipe("sobol", "hyperband", 0, 0), 9) ==
        "bracket 1: 57.9% of the trials to step 1, the best 33.3% of them to "
        "step 3, the best 11.1% of them to step 9\n"
        "bracket 2: 27% of the trials to step 3, the best 33.3% of them to "
        "step 9\n"
        "bracket 3: 15% of the trials to step 9\n"
        "about 4.06 steps a trial on average, 45% of a full training; as many "
        "trials as the time allows");
}

TEST_CASE("a budget of time alone gives shares in place of numbers") {
  Recipe recipe = cube_recipe("sobol", "asha", 0, 0);
  CHECK(plan(recipe, 9) ==
        "rung 1: every trial to step 1\n"
        "rung 2: the best 33.3% to step 3\n"
        "rung 3: the best 11.1% to step 9\n"
        "about 2.33 steps a trial on average, 26% of a full training; as many "
        "trials as the time allows");
}

TEST_CASE("a budget of steps is translated into trials") {
  Recipe recipe = cube_recipe("sobol", "fifo", 0, 0);
  recipe.budget.steps = 100;
  CHECK(plan(recipe, 9) == "11 trials to step 9: 99 steps in all");
  recipe.scheduler.kind = "asha";
  CHECK(plan(recipe, 9).starts_with("rung 1: 42 trials to step 1\n"));
}

TEST_CASE("a small space bounds the plan") {
  Recipe recipe = cube_recipe("sobol", "fifo", 0, 50);
  Parameter flip;
  flip.name = "flip";
  flip.kind = ParameterKind::boolean;
  recipe.space = SearchSpace({flip});
  CHECK(plan(recipe, 9) == "2 trials to step 9: 18 steps in all");
}

TEST_CASE("the plan of the median rule says when it cuts") {
  CHECK(plan(cube_recipe("sobol", "median", 0, 10), 16) ==
        "10 trials to step 16: 160 steps in all\n"
        "less those cut: after step 2, a trial whose best is below the median "
        "of the running means of at least 4 others");
}

TEST_CASE("a command of unknown length has a plan") {
  CHECK(plan(cube_recipe("sobol", "asha", 0, 10), kOpenHorizon) ==
        "10 trials to the end of the program each (the recipe does not say how "
        "many steps it has)");
}
