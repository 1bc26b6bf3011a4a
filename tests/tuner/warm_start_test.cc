// What studies of old give to a new one.
#include "dtune/tuner/warm_start.h"

#include <cmath>

#include "tuner/model_sampling.h"
#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/tuner/factory.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

// An accuracy: best, 0.9, at (0.3, 0.3, ...).
double accuracy(const Point& point) { return 0.9 + 0.5 * bowl(point); }
// Best at (0.9, 0.9, ...), 0.6 there.
double elsewhere(const Point& point) {
  double sum = 0;
  for (const auto& [name, value] : point) {
    sum -= std::pow(*as_number(value) - 0.9, 2);
  }
  return 0.6 + 0.2 * sum;
}

Recipe recipe_of(int dimensions, uint64_t seed = 1) {
  Recipe recipe = cube_recipe("plain-gp", "fifo", seed, 0);
  recipe.space = unit_cube(dimensions);
  return recipe;
}

WarmStudy old_study(const Function& function, int dimensions, int trials) {
  Recipe recipe = recipe_of(dimensions);
  recipe.sampler.kind = "sobol";
  Study study = make_study(recipe, 1);
  run_trials(study, *make_sampler(recipe), function, trials);
  return {"old.db", recipe, 1, study.trials};
}

// Of `trials` trials of the plain process with these studies behind it.
double best_of(const Function& function, int trials,
               const std::vector<WarmStudy>& warm) {
  double sum = 0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Study study = make_study(recipe_of(3, seed), 1);
    TunerOptions options;
    options.warm = warm;
    const Tuner tuner = make_tuner(study.recipe, 1, options);
    run_trials(study, *tuner.sampler, function, trials);
    double best = -INFINITY;
    for (const Trial& trial : study.trials) {
      best = std::max(best, function(trial.point));
    }
    sum += best / 3;
  }
  return sum;
}

}  // namespace

TEST_CASE("a warm start makes the first proposals good") {
  const WarmStudy old = old_study(accuracy, 3, 60);
  double best_old = 0;
  for (const Trial& t : old.trials) {
    best_old = std::max(best_old, accuracy(t.point));
  }
  CHECK(best_of(accuracy, 1, {old}) == doctest::Approx(best_old).epsilon(0.05));
  CHECK(best_of(accuracy, 4, {old}) > best_of(accuracy, 4, {}));
  CHECK(best_of(accuracy, 4, {old}) >= best_old - 0.005);
}

TEST_CASE("a warm start from a study unlike this one costs little") {
  const double with = best_of(accuracy, 20, {old_study(elsewhere, 3, 60)});
  const double without = best_of(accuracy, 20, {});
  CHECK(0.9 - with < 1.5 * (0.9 - without) + 0.02);
}

TEST_CASE(
    "earlier studies are observed, but neither lead nor change the weights") {
  Study study = make_study(recipe_of(2), 1);
  study.recipe.scheduler.kind = "freeze-thaw";
  TunerOptions options;
  options.warm = {old_study(accuracy, 2, 20), old_study(elsewhere, 2, 20)};
  const Tuner tuner = make_tuner(study.recipe, 1, options);
  CHECK_FALSE(tuner.scheduler->leader(study));
  CHECK(tuner.scheduler->explain(study) ==
        std::vector<std::string>{"trusts plain 100%"});
  // Worse than all that the old studies had: it leads all the same.
  run_trials(
      study, *tuner.sampler, [](const Point&) { return 0.1; }, 1);
  const auto leader = tuner.scheduler->leader(study);
  REQUIRE(leader);
  CHECK(leader->trial == 1);
}

TEST_CASE("slots that start together get different points of earlier studies") {
  Study study = make_study(recipe_of(2), 1);
  TunerOptions options;
  options.warm = {old_study(accuracy, 2, 20)};
  const Tuner tuner = make_tuner(study.recipe, 1, options);
  for (int slot = 0; slot < 8; ++slot) {
    const auto proposal = tuner.sampler->propose(study, ++study.decisions);
    REQUIRE(proposal);
    Trial trial;
    trial.id = slot + 1;
    trial.point = proposal->point;
    trial.unit = study.recipe.space.encode(trial.point);
    trial.state = TrialState::running;
    study.trials.push_back(trial);
  }
  CHECK(duplicate_points(study) == 0);
}

TEST_CASE("a warm start's decisions depend on the studies alone") {
  const std::vector<WarmStudy> warm = {old_study(accuracy, 2, 30)};
  const auto points = [&] {
    Study study = make_study(recipe_of(2), 1);
    TunerOptions options;
    options.warm = warm;
    const Tuner tuner = make_tuner(study.recipe, 1, options);
    run_trials(study, *tuner.sampler, accuracy, 6);
    std::vector<Point> all;
    for (const Trial& trial : study.trials) all.push_back(trial.point);
    return all;
  };
  CHECK(points() == points());
}

TEST_CASE("each old trial's last report comes first, the best before others") {
  WarmStudy old = old_study(accuracy, 2, 3);
  old.horizon = 51;
  for (size_t i = 0; i < 3; ++i) {
    old.trials[i].curve.clear();
    for (int step = 1; step <= 5; ++step) {
      StepReport report;
      report.step = step;
      report.metrics["val_accuracy"] = 0.1 * double(i + 1) + 0.01 * step;
      old.trials[i].curve.push_back(report);
    }
  }
  const auto all = warm_observations(recipe_of(2), old, 100);
  // Of steps 1, 2, 4 on the ladder and 5, the last.
  REQUIRE(all.size() == 12);
  CHECK(all[0].value == doctest::Approx(0.35));
  CHECK(all[1].value == doctest::Approx(0.25));
  CHECK(all[2].value == doctest::Approx(0.15));
  CHECK(all[3].value == doctest::Approx(0.34));
  CHECK(all[0].time == doctest::Approx(5.0 / 51));
  CHECK(warm_observations(recipe_of(2), old, 2).size() == 2);
}

TEST_CASE("what a space cannot hold is left out of a warm start") {
  const WarmStudy old = old_study(accuracy, 3, 16);
  // A parameter less is dropped, one more is missing in all.
  CHECK(warm_observations(recipe_of(2), old, 100).size() == 16);
  CHECK(warm_observations(recipe_of(4), old, 100).empty());
  Recipe narrow = recipe_of(3);
  std::vector<Parameter> parameters = narrow.space.parameters();
  parameters[0].high = 0.5;
  narrow.space = SearchSpace(parameters);
  const size_t left = warm_observations(narrow, old, 100).size();
  CHECK(left > 0);
  CHECK(left < 16);
}

TEST_CASE("unusable values do a warm start no harm") {
  for (const Function& function :
       {Function([](const Point&) { return NAN; }),
        Function([](const Point&) { return INFINITY; }),
        Function([](const Point&) { return 0.5; }),
        Function([](const Point& p) {
          return p.at("x0") < Value(0.5) ? -1e308 : 1e308;
        })}) {
    const WarmStudy old = old_study(function, 3, 10);
    CHECK(best_of(accuracy, 3, {old}) > 0);
  }
}

TEST_CASE("a warm start that cannot be meant is refused") {
  const WarmStudy old = old_study(accuracy, 2, 2);
  Recipe recipe = recipe_of(2);
  recipe.warm_start = {"old.db"};
  TunerOptions options;
  options.warm = {old};
  SUBCASE("of another metric") { recipe.objective.metric = "val_loss"; }
  SUBCASE("of another goal") { recipe.objective.goal = Goal::minimize; }
  SUBCASE("nothing models it") {
    recipe.sampler.kind = "tpe";
    recipe.scheduler.kind = "median";
  }
  CHECK_THROWS_AS(make_tuner(recipe, 1, options), Error);
}

TEST_CASE("a table of results is an earlier study") {
  const Recipe recipe = recipe_of(2);
  const std::string metric = recipe.objective.metric;
  const std::string a = recipe.space.parameters()[0].name;
  const std::string b = recipe.space.parameters()[1].name;
  const WarmStudy ends =
      read_warm_table("number,value,params_" + a + ",params_" + b +
                          ",state\n0,0.5,0.1,0.2,COMPLETE\n1,,0.3,0.4,FAIL\n"
                          "2,0.75,0.5,0.6,COMPLETE\n",
                      "optuna.csv", recipe);
  CHECK(ends.horizon == kOpenHorizon);
  REQUIRE(ends.trials.size() == 2);
  const auto seen = warm_observations(recipe, ends, 10);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].value == doctest::Approx(0.75));
  CHECK(seen[0].unit == std::vector<double>{0.5, 0.6});
  CHECK(seen[0].time == 1);

  const WarmStudy curves = read_warm_table(
      a + "," + b + ",trial,step," + metric +
          "\n0.1,0.2,7,4,0.5\n0.1,0.2,7,1,0.25\n0.9,0.9,8,2,0.125\n",
      "mine.csv", recipe);
  CHECK(curves.horizon == 4);
  REQUIRE(curves.trials.size() == 2);
  REQUIRE(curves.trials[0].curve.size() == 2);
  CHECK(curves.trials[0].curve[0].step == 1);
}

TEST_CASE("a table of dtune gives the trials of its search alone") {
  const Recipe recipe = recipe_of(1);
  const std::string a = recipe.space.parameters()[0].name;
  const WarmStudy old = read_warm_table(
      "trial,kind,step," + recipe.objective.metric + ",param." + a +
          "\n1,search,4,0.5,0.1\n2,search,4,0.75,0.2\n3,final,9,0.8,0.2\n"
          "4,repeat,4,0.7,0.2\n",
      "old.csv", recipe);
  CHECK(old.trials.size() == 2);
  CHECK(old.horizon == 4);
  CHECK(warm_observations(recipe, old, 10).size() == 2);
}

TEST_CASE("a table without results is named with its place") {
  const Recipe recipe = recipe_of(1);
  const std::string a = recipe.space.parameters()[0].name;
  const auto problem = [&](const std::string& text) -> std::string {
    try {
      read_warm_table(text, "t.csv", recipe);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(problem(a + ",loss\n0.1,2\n") ==
        "t.csv:1:1: no column is called '" + recipe.objective.metric +
            "', the objective's metric (or 'value')");
  CHECK(problem(a + ",value\n0.1,high\n") ==
        "t.csv:2:1: 'high' in column 'value' is not a number");
}
