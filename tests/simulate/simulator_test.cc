#include "dtune/simulate/simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "simulate/small_world.h"
#include "tuner/forwarding_scheduler.h"
#include <doctest/doctest.h>

using namespace dtune;           // NOLINT: a test
using namespace dtune::testing;  // NOLINT

namespace {

// Steps of a point are worth 1 - 1/step, save that `lr` below the middle
// diverges at step 3.
class DivergingWorld final : public TrialWorld {
 public:
  DivergingWorld() : recipe_(make_cube_world(three_rates())->recipe()) {}
  const std::string& task() const override { return recipe_.study; }
  const CubeContext& context() const override { return context_; }
  const Recipe& recipe() const override { return recipe_; }
  int steps() const override { return 4; }
  std::optional<Point> settle(const Point& proposal,
                              const Study& study) const override {
    if (study.trials.size() >= 3) return std::nullopt;
    return proposal;
  }
  double value(const Point& point, int step) const override {
    const bool low = *as_number(point.at("lr")) < 0.01;
    return low && step == 3 ? std::numeric_limits<double>::infinity()
                            : 1 - 1.0 / step;
  }
  double best() const override { return 0.75; }
  double median_final() const override { return 0.5; }

 private:
  Recipe recipe_;
  CubeContext context_;
};

// Writes down what it sees.
class Recorder final : public SimulationObserver {
 public:
  void on_directive(const Study& /*study*/, const Directive& d) override {
    starts += d.kind == Directive::Kind::start ? 1 : 0;
  }
  void on_report(const Study& study, const Trial& trial) override {
    observed.push_back(
        *objective_value(study.recipe.objective, trial.curve.back()));
    order.push_back(trial.id);
    running = 0;
    for (const Trial& one : study.trials) {
      running += one.state == TrialState::running ? 1 : 0;
    }
    most_running = std::max(most_running, running);
  }
  std::vector<double> observed;
  std::vector<TrialId> order;
  int starts = 0;
  int running = 0;
  int most_running = 0;
};

SimulationOptions with_budgets(std::vector<int64_t> budgets) {
  SimulationOptions options;
  options.budgets = std::move(budgets);
  return options;
}

SimulationResult run(const TrialWorld& world, const SimulatedTuner& tuner,
                     const SimulationOptions& options,
                     SimulationObserver* observer = nullptr) {
  return simulate(world, simulated_recipe(world, "random", "fifo", 1), tuner,
                  options, observer);
}

}  // namespace

TEST_CASE("regret is what is missing of the way from the median to the best") {
  const auto world = make_cube_world(three_rates());
  const auto result = run(*world, listed_tuner(*world, {0.1, 0.01}),
                          with_budgets({1, 2, 3, 4}));
  REQUIRE(result.regret.size() == 4);
  CHECK(result.regret[0] == doctest::Approx((0.8 - 0.3) / 0.2));
  CHECK(result.regret[1] == doctest::Approx(1));
  CHECK(result.regret[2] == doctest::Approx(1));  // 0.5 is no improvement
  CHECK(result.regret[3] == doctest::Approx(0));
  CHECK(result.trials == 2);
  CHECK(result.steps == 4);
  CHECK(result.time == 4);
}

TEST_CASE("a study that ends early keeps its regret to the last budget") {
  const auto world = make_cube_world(three_rates());
  const auto result =
      run(*world, listed_tuner(*world, {0.1}), with_budgets({1, 2, 50, 100}));
  CHECK(result.steps == 2);
  CHECK(result.regret[3] == doctest::Approx(1));
  const auto nothing =
      run(*world, listed_tuner(*world, {}), with_budgets({1, 2}));
  CHECK(nothing.regret == std::vector<double>{1, 1});
}

TEST_CASE("without budgets one to twenty trainings are spent") {
  CHECK(budgets_of({}, 51) ==
        std::vector<int64_t>{51, 102, 204, 408, 612, 1020});
  CHECK(budgets_of(with_budgets({5}), 51) == std::vector<int64_t>{5});
}

TEST_CASE("where all points end alike a hit has no regret") {
  RecordedCurves flat = three_rates();
  flat.values.assign(6, 0.5f);
  const auto world = make_cube_world(flat);
  CHECK(run(*world, listed_tuner(*world, {0.1}), with_budgets({1})).regret[0] ==
        0);
  flat.values[0] = 0.25f;
  const auto dented = make_cube_world(flat);
  const double regret =
      run(*dented, listed_tuner(*dented, {0.001}), with_budgets({1})).regret[0];
  CHECK(std::isfinite(regret));
  CHECK(regret > 1);
}

TEST_CASE("with noise the truth at the luckiest observation counts") {
  const auto world = make_cube_world(three_rates());
  SimulationOptions options = with_budgets({6});
  options.noise = 1;
  std::set<double> regrets;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    Recorder seen;
    const auto result =
        run(*world, listed_tuner(*world, {0.001, 0.01, 0.1}), options, &seen);
    const auto luckiest =
        std::max_element(seen.observed.begin(), seen.observed.end());
    const double truths[] = {0.2, 0.4, 0.5, 0.8, 0.3, 0.6};
    const double truth = truths[luckiest - seen.observed.begin()];
    CHECK(result.regret[0] ==
          doctest::Approx((0.8 - truth) / 0.2).epsilon(1e-6));
    regrets.insert(result.regret[0]);
  }
  CHECK(regrets.size() > 2);
}

TEST_CASE("a study sees one recorded training; regret is by the others") {
  RecordedCurves curves = three_rates();
  curves.repeats = {{0.2f, 0.4f, 0.5f, 0.9f, 0.3f, 0.3f},
                    {0.2f, 0.4f, 0.5f, 0.7f, 0.3f, 0.6f}};
  for (size_t i = 0; i < curves.values.size(); ++i) {
    curves.values[i] = (curves.repeats[0][i] + curves.repeats[1][i]) / 2;
  }
  const auto world = make_cube_world(curves);
  // Each names the second rate, worth .7 and .9 by the other one.
  CHECK(world->best() == doctest::Approx(0.8));
  SimulationOptions options = with_budgets({6});
  std::set<double> observed;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    Recorder seen;
    const auto result =
        run(*world, listed_tuner(*world, {0.001, 0.01, 0.1}), options, &seen);
    const double luckiest =
        *std::max_element(seen.observed.begin(), seen.observed.end());
    // Of the training that was not seen: .9 or .7; the median is .45.
    CHECK(result.regret[0] ==
          doctest::Approx((0.8 - (1.6 - luckiest)) / 0.35).epsilon(1e-5));
    observed.insert(luckiest);
  }
  CHECK(observed.size() == 2);
}

// Holds the first step of the first trial for the best, whatever comes.
class LoyalScheduler final : public ForwardingScheduler {
 public:
  LoyalScheduler() : ForwardingScheduler(make_scheduler(fifo_recipe(), 1)) {}
  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override {
    Directive d =
        ForwardingScheduler::next(study, sampler, decision, may_start);
    if (d.kind == Directive::Kind::start) d.target_step = study.horizon;
    return d;
  }
  std::optional<Leader> leader(const Study& /*study*/) const override {
    return Leader{1, 1};
  }

 private:
  static Recipe fifo_recipe() {
    Recipe recipe;
    recipe.scheduler.kind = "fifo";
    return recipe;
  }
};

TEST_CASE("a tuner's own choice of the best is the one that is judged") {
  const auto world = make_cube_world(three_rates());
  SimulatedTuner tuner = listed_tuner(*world, {0.001, 0.01});
  tuner.scheduler = std::make_unique<LoyalScheduler>();
  CHECK(run(*world, tuner, with_budgets({4})).regret[0] == doctest::Approx(3));
}

TEST_CASE("eight slots spend the same steps in an eighth of the time") {
  const auto world = make_cube_world(three_rates());
  std::vector<double> rates;
  for (int i = 0; i < 100; ++i) rates.push_back(0.001 + i * 0.0009);
  SimulationOptions options = with_budgets({64});
  const auto one = run(*world, listed_tuner(*world, rates), options);
  options.slots = 8;
  Recorder seen;
  const auto eight = run(*world, listed_tuner(*world, rates), options, &seen);
  CHECK(one.steps == 64);
  CHECK(eight.steps == 64);
  CHECK(one.time == 64);
  CHECK(eight.time == 8);
  CHECK(seen.most_running == 8);
  // 32 trainings, and what seven slots began while the last one reported.
  CHECK(seen.starts == 39);
}

TEST_CASE("steps of unequal length report out of turn, the same each time") {
  const auto world = make_cube_world(three_rates());
  SimulationOptions options = with_budgets({12});
  options.slots = 3;
  const std::vector<double> rates = {0.001, 0.002, 0.004, 0.01, 0.05, 0.1};
  Recorder equal;
  run(*world, listed_tuner(*world, rates), options, &equal);
  CHECK(equal.order ==
        std::vector<TrialId>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  options.spread = 1;
  Recorder first;
  Recorder second;
  run(*world, listed_tuner(*world, rates), options, &first);
  run(*world, listed_tuner(*world, rates), options, &second);
  CHECK(first.order != equal.order);
  CHECK(first.order == second.order);
}

TEST_CASE(
    "a trial that diverges frees its slot, a world can run out of points") {
  const DivergingWorld world;
  const auto result = run(world, listed_tuner(world, {0.001, 0.05, 0.1, 0.02}),
                          with_budgets({100}));
  CHECK(result.trials == 3);
  CHECK(result.steps == 3 + 4 + 4);
  CHECK(result.regret[0] == doctest::Approx(0));
}

TEST_CASE("cuts are counted, and those that would have won") {
  RecordedCurves late = three_rates();
  late.log10_lr = {-4, -3, -2, -1, 0, 1};
  late.epochs = {1, 2, 3, 4, 5, 6, 7, 8};
  late.values.clear();
  for (int lr = 0; lr < 6; ++lr) {
    for (int step = 1; step <= 8; ++step) {
      // The last rate begins worst and ends best.
      late.values.push_back(lr < 5 ? 0.5f : (step < 6 ? 0.1f : 0.9f));
    }
  }
  const auto world = make_cube_world(late);
  const auto result = run(
      *world, listed_tuner(*world, {1e-4, 1e-3, 1e-2, 0.1, 1, 10}, "median"),
      with_budgets({100}));
  CHECK(result.cuts == 1);
  CHECK(result.cuts_wrong == 1);
}

TEST_CASE("a simulated recipe has the cube's ranges and context") {
  RecordedCurves curves = three_rates();
  curves.log10_l2 = {-6, -2};
  curves.values.resize(12, 0.5f);
  curves.context = {
      .batch_size = 64, .width = 256, .momentum = 0.8, .depth = 3};
  const auto world = make_cube_world(curves);
  const Recipe recipe = simulated_recipe(*world, "grid", "fifo", 7);
  CHECK(recipe.study == "three");
  CHECK(recipe.seed == 7);
  CHECK(recipe.train.batch_size == 64);
  CHECK(recipe.train.momentum == 0.8);
  CHECK(recipe.model.layers.size() == 9);
  CHECK(recipe.model.layers[0].channels == 256);
  CHECK(recipe.train.epochs == 2);
  // Dropout was recorded at one value: it is fixed.
  const auto& parameters = recipe.space.parameters();
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].key == "train.lr");
  CHECK(parameters[1].key == "train.l2");
  CHECK(parameters[1].low == doctest::Approx(1e-6));
  CHECK(parameters[1].log);
  CHECK(std::get<int64_t>(recipe.sampler.options.at("points")) == 5);
}

TEST_CASE("curves of unknown networks do not count as those of a CNN") {
  RecordedCurves curves = three_rates();
  curves.context = {};
  const auto layers = make_cube_world(curves)->recipe().model.layers;
  REQUIRE(layers.size() == 1);
  CHECK(layers[0].kind == LayerKind::flatten);
  curves.context.optimizer = "adam";  // recorded by dtune, from images
  const auto world = make_cube_world(curves);
  CHECK(world->recipe().model.layers.empty());
  CHECK(world->recipe().train.optimizer == OptimizerKind::adam);
}
