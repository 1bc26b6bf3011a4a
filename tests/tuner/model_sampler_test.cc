// What the samplers that model the outcomes promise, each over `gp` and `tpe`.
#include <cmath>
#include <set>

#include "tuner/model_sampling.h"
#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/tuner/evidence.h"
#include "dtune/tuner/factory.h"
#include "dtune/tuner/gp_model.h"
#include "dtune/tuner/model_space.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

const std::vector<std::string> kKinds = {"gp", "tpe"};

Study study_of(const std::string& kind, const SearchSpace& space,
               uint64_t seed = 1) {
  Recipe recipe = cube_recipe(kind, "fifo", seed, 0);
  recipe.space = space;
  return make_study(recipe, 1);
}

void add_pending(Study& study, const Point& point) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = point;
  trial.state = TrialState::running;
  study.trials.push_back(trial);
}

}  // namespace

TEST_CASE("modelling finds the bottom of a bowl far better than chance") {
  const SearchSpace space = unit_cube(3);
  const double random = mean_best("random", space, bowl, 40);
  CHECK(mean_best("gp", space, bowl, 20) > 0.02 * random);
  CHECK(mean_best("tpe", space, bowl, 40) > 0.5 * random);
}

TEST_CASE("under noise the best to improve on is what is expected") {
  Study study = study_of("gp", unit_cube(2));
  Rng rng(5);
  for (int i = 0; i < 24; ++i) {
    Trial trial;
    trial.id = i + 1;
    const double spot = 0.2 + 0.3 * (i % 3);
    trial.point = study.recipe.space.decode(std::vector<double>{
        spot + 1e-3 * rng.uniform(), spot + 1e-3 * rng.uniform()});
    trial.unit = study.recipe.space.encode(trial.point);
    trial.state = TrialState::complete;
    StepReport report;
    report.step = 1;
    report.metrics[study.recipe.objective.metric] = i % 2 == 0 ? 0.45 : 0.55;
    trial.curve.push_back(report);
    study.trials.push_back(trial);
  }
  const FittedStudy model(ModelSpace(study.recipe.space),
                          gather_evidence(study));
  CHECK(model.best() < 0.53);
  CHECK(model.best() > 0.47);
}

TEST_CASE("modelling works over integers, words, conditions, constraints") {
  const double random = mean_best("random", mixed_space(), mixed_function, 40);
  CHECK(mean_best("gp", mixed_space(), mixed_function, 25) > 0.5 * random);
  CHECK(mean_best("tpe", mixed_space(), mixed_function, 40) > 0.8 * random);
}

TEST_CASE("modelling works in twenty dimensions") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    Study study = study_of(kind, unit_cube(20));
    const auto sampler = make_sampler(study.recipe);
    run_trials(study, *sampler, bowl, 30);
    double best = -INFINITY;
    double before = -INFINITY;
    for (const Trial& trial : study.trials) {
      if (trial.id <= 10) before = std::max(before, bowl(trial.point));
      best = std::max(best, bowl(trial.point));
    }
    CHECK(best > 0.9 * before);
  }
}

TEST_CASE("parallel proposals of a model differ widely") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    Study study = study_of(kind, unit_cube(2));
    const auto sampler = make_sampler(study.recipe);
    run_trials(study, *sampler, bowl, 12);
    std::set<Point> points;
    for (int slot = 0; slot < 16; ++slot) {
      const auto proposal = sampler->propose(study, ++study.decisions);
      REQUIRE(proposal);
      CHECK(points.insert(proposal->point).second);
      add_pending(study, proposal->point);
    }
  }
}

TEST_CASE("a model's proposal depends on the study alone") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    Study study = study_of(kind, mixed_space());
    const auto sampler = make_sampler(study.recipe);
    run_trials(study, *sampler, mixed_function, 14);
    Study again = study_of(kind, mixed_space());
    for (const Trial& trial : study.trials) {
      const auto proposal =
          make_sampler(study.recipe)->propose(again, ++again.decisions);
      REQUIRE(proposal);
      CHECK(proposal->point == trial.point);
      again.trials.push_back(trial);
    }
  }
}

TEST_CASE("unusable metrics do a model no harm") {
  const Function bad[] = {
      [](const Point&) { return NAN; }, [](const Point&) { return INFINITY; },
      [](const Point&) { return 0.5; },
      [](const Point& p) { return p.at("x0") < Value(0.5) ? -1e308 : 1e308; },
      [](const Point& p) { return p.at("x0") < Value(0.5) ? -INFINITY : 1; }};
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    for (const Function& function : bad) {
      Study study = study_of(kind, unit_cube(2));
      run_trials(study, *make_sampler(study.recipe), function, 16);
      CHECK(duplicate_points(study) == 0);
    }
  }
}

TEST_CASE("a model keeps away from where trials broke") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    Study study = study_of(kind, unit_cube(2));
    const auto sampler = make_sampler(study.recipe);
    for (int i = 0; i < 30; ++i) {
      run_trials(study, *sampler, bowl, 1);
      if (*as_number(study.trials.back().point.at("x0")) < 0.5) continue;
      study.trials.back().state = TrialState::failed;
      study.trials.back().curve.clear();
    }
    int broken = 0;
    for (const Trial& trial : study.trials) {
      if (trial.id > 15 && trial.state == TrialState::failed) ++broken;
    }
    CHECK(broken <= 5);
  }
}

TEST_CASE("a model is not misled by trials that stopped early") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    Study study = study_of(kind, unit_cube(2));
    study.horizon = 20;
    const auto sampler = make_sampler(study.recipe);
    // Every second trial stops after its first step, which tells nothing.
    for (int i = 0; i < 40; ++i) {
      run_trials(study, *sampler, bowl, 1);
      Trial& trial = study.trials.back();
      if (i % 2 == 0) continue;
      trial.state = TrialState::cut;
      trial.curve.back().metrics["val_accuracy"] = -2;
    }
    const Trial* best = incumbent(study);
    REQUIRE(best != nullptr);
    CHECK(bowl(best->point) > -0.02);
  }
}

TEST_CASE("a user's prior draws a model's proposals") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    std::vector<Parameter> parameters = unit_cube(2).parameters();
    parameters[0].prior = 0.9;
    parameters[0].confidence = Confidence::high;
    Study study = study_of(kind, SearchSpace(parameters));
    run_trials(
        study, *make_sampler(study.recipe),
        [](const Point& p) { return *as_number(p.at("x1")); }, 25);
    CHECK(study.trials.front().point.at("x0") == Value(0.9));
    double sum = 0;
    for (const Trial& trial : study.trials) {
      sum += *as_number(trial.point.at("x0")) / 25;
    }
    CHECK(sum > 0.65);
  }
}

TEST_CASE("ten thousand outcomes do not stall a model") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    Study study = study_of("random", unit_cube(4));
    run_trials(study, *make_sampler(study.recipe), bowl, 300);
    while (study.trials.size() < 10'000) {
      Trial trial = study.trials[study.trials.size() - 300];
      trial.id = std::ssize(study.trials) + 1;
      const double x = *as_number(trial.point["x0"]);
      trial.point["x0"] = x * 0.999;
      trial.curve.back().metrics["val_accuracy"] = bowl(trial.point);
      study.trials.push_back(trial);
    }
    study.recipe.sampler.kind = kind;
    const auto proposal = make_sampler(study.recipe)->propose(study, 1);
    REQUIRE(proposal);
    CHECK(bowl(proposal->point) > -0.2);
  }
}
