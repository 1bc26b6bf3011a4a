#include "dtune/tuner/surrogate_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "surrogate/tiny_cubes.h"
#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kModelHorizon = 20;

Recipe rates_recipe() {
  Recipe recipe = cube_recipe("plain-gp", "freeze-thaw", 1, 0);
  std::vector<Parameter> parameters = cube();
  parameters[0].key = "train.lr";
  parameters[1].key = "train.l2";
  parameters[2].key = "model.dropout";
  recipe.space = SearchSpace(std::move(parameters));
  return recipe;
}

SurrogateModel plain_model(const Recipe& recipe) {
  return {recipe, kModelHorizon, {}};
}

TrialId add_unit_trial(Study& study, std::vector<double> unit) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = study.recipe.space.decode(unit);
  trial.unit = study.recipe.space.encode(trial.point);
  trial.seed = uint64_t(trial.id);
  trial.state = TrialState::paused;
  study.trials.push_back(trial);
  return trial.id;
}

void report(Study& study, TrialId id, double value) {
  StepReport report;
  report.step = study.trial(id).steps() + 1;
  report.sequence = ++study.reports;
  report.metrics[study.recipe.objective.metric] = value;
  study.trial(id).curve.push_back(report);
}

double rising(const std::vector<double>& unit, int step) {
  const double off = unit[0] - 0.6;
  return (0.9 - off * off) * (1 - std::exp(-0.3 * step));
}

// Trials that take turns, a few steps each.
Study rising_study(const Recipe& recipe, int trials, int steps) {
  Study study = make_study(recipe, kModelHorizon);
  Rng rng(3);
  for (int i = 0; i < trials; ++i) {
    add_unit_trial(study, {rng.uniform(), rng.uniform(), rng.uniform()});
  }
  for (int step = 1; step <= steps; ++step) {
    for (TrialId id = 1; id <= trials; ++id) {
      report(study, id, rising(study.trial(id).unit, step));
    }
  }
  return study;
}

// The reports up to `seen` of a study, in the order of their arrival.
Study first_reports(const Study& whole, int64_t seen) {
  Study part = whole;
  for (Trial& trial : part.trials) {
    std::erase_if(trial.curve,
                  [&](const StepReport& r) { return r.sequence > seen; });
  }
  return part;
}

std::vector<ModelQuery> queries() {
  return {{{0.6, 0.5, 0.5}, 20}, {{0.1, 0.2, 0.9}, 7}, {{1, 1, 0}, 1}};
}

double learnt_trust(const SurrogateModel& model) {
  for (const MemberTrust& m : model.trust()) {
    if (m.name == "learnt") return m.weight;
  }
  return 0;
}

}  // namespace

TEST_CASE("a lucky training goes on so, another one of its point need not") {
  const Recipe recipe = rates_recipe();
  std::vector<RecordedCube> cubes = tiny_cubes(3);
  for (RecordedCube& cube : cubes) cube.training_deviation = 0.3;
  SurrogateParts parts;
  parts.prior = std::make_shared<const CubePrior>(
      LearntPrior::learn(prior_axes(tiny_curves(3)), cubes, 5).condition({}));
  parts.plain = false;
  Study study = make_study(recipe, kModelHorizon);
  const std::vector<double> lucky = {0.6, 0.5, 0.5};
  const TrialId first = add_unit_trial(study, lucky);
  for (const double near : {0.45, 0.55, 0.65, 0.75}) {
    add_unit_trial(study, {0.6, near, 0.5});
    add_unit_trial(study, {near, 0.5, 0.5});
  }
  for (int step = 1; step < kModelHorizon; ++step) {
    for (const Trial& trial : study.trials) {
      const double luck = trial.id == first ? 0.05 : 0;
      report(study, trial.id, rising(trial.unit, step) + luck);
    }
  }
  SurrogateModel model(recipe, kModelHorizon, parts);
  model.update(study);
  const Prediction same = model.predict({lucky, kModelHorizon, first});
  const Prediction another = model.predict({lucky, kModelHorizon});
  CHECK(same.mean > another.mean + 0.01);
  CHECK(same.high - same.low < another.high - another.low);
}

TEST_CASE("what a model predicts does not depend on when it was asked") {
  const Recipe recipe = rates_recipe();
  const Study whole = rising_study(recipe, 6, 5);
  SurrogateModel at_once = plain_model(recipe);
  at_once.update(whole);
  SurrogateModel bit_by_bit = plain_model(recipe);
  for (int64_t seen = 0; seen <= whole.reports; ++seen) {
    bit_by_bit.update(first_reports(whole, seen));
    if (seen > 0) bit_by_bit.log_chance(queries(), 0.01);
  }
  CHECK(at_once.log_chance(queries(), 0.01) ==
        bit_by_bit.log_chance(queries(), 0.01));
  CHECK(at_once.leader().trial == bit_by_bit.leader().trial);
}

TEST_CASE("the last report between two looks counts until the next look") {
  const Recipe recipe = rates_recipe();
  Study study = rising_study(recipe, 3, 6);
  SurrogateModel model = plain_model(recipe);
  constexpr int kBetween = 7;
  REQUIRE(model.next_step(6) > kBetween);
  model.update(study);
  const TrialId late = model.leader().trial == 3 ? 2 : 3;
  const auto trust = model.weights();
  const ModelQuery end = {study.trial(late).unit, kModelHorizon};
  const double before = model.log_chance({&end, 1}, 0).front();

  study.trial(late).state = TrialState::running;
  report(study, late, 0.95);
  model.update(study);
  CHECK(model.leader().trial == late);
  CHECK(model.leader().step == kBetween);
  CHECK(model.log_chance({&end, 1}, 0).front() > before);
  CHECK(model.weights() == trust);

  // One that was broken off by itself says nothing.
  study.trial(late).state = TrialState::failed;
  model.update(study);
  CHECK(model.leader().trial != late);

  // From the next look on nothing is left of it.
  study.trial(late).state = TrialState::running;
  while (study.trial(late).steps() < model.next_step(6)) {
    report(study, late, 0.3);
  }
  model.update(study);
  SurrogateModel fresh = plain_model(recipe);
  fresh.update(study);
  CHECK(model.log_chance({&end, 1}, 0) == fresh.log_chance({&end, 1}, 0));
  CHECK(model.leader().trial != late);
}

TEST_CASE("the reports between two looks say how lucky the last one was") {
  const Recipe recipe = rates_recipe();
  int named = 0;
  constexpr int kStudies = 60;
  Rng rng(4);
  for (int i = 0; i < kStudies; ++i) {
    Study study = make_study(recipe, kModelHorizon);
    constexpr double kNoise = 0.01;
    constexpr double kAhead = 0.006;
    const TrialId worse = add_unit_trial(study, {0.2, 0.5, 0.5});
    const TrialId better = add_unit_trial(study, {0.8, 0.5, 0.5});
    for (int step = 1; step < kModelHorizon; ++step) {
      const double mean = 0.8 - 0.5 * std::exp(-0.5 * step);
      report(study, worse, mean + kNoise * rng.normal());
      report(study, better, mean + kAhead + kNoise * rng.normal());
    }
    report(study, worse, 0.8 + kNoise);
    report(study, better, 0.8 + kAhead - kNoise);
    SurrogateModel model = plain_model(recipe);
    model.update(study);
    if (model.leader().trial == better) ++named;
  }
  MESSAGE("the better trial was named ", named, " times of ", kStudies);
  CHECK(named > kStudies / 2);
}

TEST_CASE("of many reports between looks the best count") {
  const Recipe recipe = rates_recipe();
  Study study = rising_study(recipe, 300, 6);
  for (Trial& trial : study.trials) {
    trial.state = TrialState::running;
    report(study, trial.id, trial.id == 300 ? 0.97 : 0.9);
  }
  SurrogateModel model = plain_model(recipe);
  model.update(study);
  CHECK(model.leader().trial == 300);
}

TEST_CASE("metrics that are not numbers are left out of a model") {
  const Recipe recipe = rates_recipe();
  Study study = make_study(recipe, kModelHorizon);
  SurrogateModel model = plain_model(recipe);
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {double{NAN}, inf, -inf}) {
    report(study, add_unit_trial(study, {0.2, 0.2, 0.2}), bad);
  }
  model.update(study);
  CHECK(model.empty());
  report(study, add_unit_trial(study, {0.6, 0.5, 0.5}), 0.5);
  model.update(study);
  CHECK_FALSE(model.empty());
  CHECK(model.leader().trial == 4);
  for (const double chance : model.log_chance(queries(), 0.01)) {
    CHECK(std::isfinite(chance));
  }
}

TEST_CASE(
    "values at the ends of doubles and jumps beyond all scale do no harm") {
  const Recipe recipe = rates_recipe();
  for (const std::vector<double>& values :
       {std::vector<double>{1e308, -1e308, -1e308, 0, 1e308},
        {-5, -5, -5, -5, -5, 0, 1e9, 1e300},
        {0, 0, 0, 0, 0, 0, 1e300}}) {
    Study study = make_study(recipe, kModelHorizon);
    SurrogateModel model = plain_model(recipe);
    for (const double value : values) {
      const double u = 0.1 * double(study.trials.size());
      report(study, add_unit_trial(study, {u, u, u}), value);
      model.update(study);
    }
    for (const double chance : model.log_chance(queries(), 0.01)) {
      CHECK(std::isfinite(chance));
    }
  }
}

TEST_CASE("a failed trial lowers the chance near its point") {
  const Recipe recipe = rates_recipe();
  for (const TrialState state :
       {TrialState::failed, TrialState::invalid, TrialState::timed_out}) {
    CAPTURE(to_string(state));
    Study study = rising_study(recipe, 6, 7);
    const ModelQuery near = {study.trial(2).unit, kModelHorizon};
    SurrogateModel model = plain_model(recipe);
    model.update(study);
    const double before = model.log_chance({&near, 1}, 0.01).front();
    study.trial(2).state = state;
    model.update(study);
    CHECK(model.log_chance({&near, 1}, 0.01).front() < before);
  }
}

TEST_CASE("a word that a point does not have is not one of the list") {
  Recipe recipe = rates_recipe();
  Parameter schedule;
  schedule.name = "warmup";
  schedule.kind = ParameterKind::boolean;
  Parameter kind;
  kind.name = "kind";
  kind.kind = ParameterKind::categorical;
  kind.choices = {std::string("a"), std::string("b"), std::string("c")};
  kind.when = "warmup";
  recipe.space = SearchSpace({cube()[0], schedule, kind});
  Study study = make_study(recipe, kModelHorizon);
  // Without the word all is well; with the middle one nothing was seen yet.
  for (const double u : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    const TrialId id = add_unit_trial(study, {u, 0.25, 0.5});
    for (int step = 1; step <= 7; ++step) report(study, id, rising({u}, step));
  }
  SurrogateModel model = plain_model(recipe);
  model.update(study);
  const auto chance = [&](double warmup, double word) {
    const ModelQuery query = {{0.6, warmup, word}, kModelHorizon};
    return model.log_chance({&query, 1}, 0.1).front();
  };
  CHECK(chance(0.75, 0.5) == doctest::Approx(chance(0.75, 1.0 / 6)));
  CHECK(chance(0.25, 0.5) != doctest::Approx(chance(0.75, 0.5)));
}

TEST_CASE("a best value above 1 is still to be beaten, not to be met") {
  Recipe recipe = rates_recipe();
  recipe.objective = {"reward", Goal::maximize};
  Study study = make_study(recipe, kModelHorizon);
  for (const double reward : {1.0, 1.1, 1.2, 1.3, 1.4, 5.0}) {
    const double u = 0.1 * double(study.trials.size());
    report(study, add_unit_trial(study, {u, u, u}), reward);
  }
  SurrogateModel model = plain_model(recipe);
  model.update(study);
  const ModelQuery query = {{0.6, 0.6, 0.6}, kModelHorizon};
  CHECK(model.log_chance({&query, 1}, 0.1).front() <=
        model.log_chance({&query, 1}, 1e-4).front());
}

TEST_CASE("the expected gain lies between the chances that it sums") {
  const Recipe recipe = rates_recipe();
  SurrogateModel model = plain_model(recipe);
  model.update(rising_study(recipe, 6, 7));
  const std::vector<double> gain = model.log_gain(queries());
  const std::vector<double> least = model.log_chance(queries(), 0.75);
  const std::vector<double> most = model.log_chance(queries(), 0.003);
  REQUIRE(gain.size() == most.size());
  for (size_t i = 0; i < gain.size(); ++i) {
    CHECK(gain[i] >= least[i] + std::log(0.75) - 1e-9);
    CHECK(gain[i] <= most[i] + std::log(0.75) + 1e-9);
  }
}

TEST_CASE("a long study is learnt from its end: at once as bit by bit") {
  for (const Goal goal : {Goal::maximize, Goal::minimize}) {
    Recipe recipe = rates_recipe();
    recipe.objective.goal = goal;
    const Study whole = rising_study(recipe, 60, 13);
    SurrogateModel at_once = plain_model(recipe);
    at_once.update(whole);
    SurrogateModel bit_by_bit = plain_model(recipe);
    for (int64_t seen = 0; seen <= whole.reports; seen += 13) {
      bit_by_bit.update(first_reports(whole, seen));
    }
    CHECK(at_once.log_chance(queries(), 0.01) ==
          bit_by_bit.log_chance(queries(), 0.01));
    CHECK(at_once.leader().trial == bit_by_bit.leader().trial);
  }
}

TEST_CASE("a study that is resumed while its model is fitted goes on alike") {
  const Recipe recipe = rates_recipe();
  const Study whole = rising_study(recipe, 60, 13);
  SurrogateModel live = plain_model(recipe);
  // Steps 1, 2, 4, 6 and 9 are on the ladder: the 256th of their reports comes
  // amid the ninth step's.
  REQUIRE(live.ladder()[4] == 9);
  for (int64_t seen = 480; seen <= 545; ++seen) {
    const Study part = first_reports(whole, seen);
    live.update(part);
    if (seen % 8 != 0) continue;
    SurrogateModel resumed = plain_model(recipe);
    resumed.update(part);
    CHECK(resumed.log_chance(queries(), 0.01) ==
          live.log_chance(queries(), 0.01));
  }
}

TEST_CASE("of many queries the most promising is found as among few") {
  const Recipe recipe = rates_recipe();
  SurrogateModel model = plain_model(recipe);
  model.update(rising_study(recipe, 30, 13));
  Rng rng(9);
  std::vector<ModelQuery> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(
        {{rng.uniform(), rng.uniform(), rng.uniform()}, kModelHorizon});
  }
  const std::vector<double> at_once = model.log_chance(many, 0.01);
  const auto best = std::max_element(at_once.begin(), at_once.end());
  double one_by_one = -HUGE_VAL;
  for (const ModelQuery& query : many) {
    one_by_one =
        std::max(one_by_one, model.log_chance({&query, 1}, 0.01).front());
  }
  CHECK(*best == doctest::Approx(one_by_one).epsilon(1e-3));
  const ModelQuery& winner = many[size_t(best - at_once.begin())];
  CHECK(model.log_chance({&winner, 1}, 0.01).front() == doctest::Approx(*best));
}

TEST_CASE("a long study without noise is learnt to its end") {
  const Recipe recipe = rates_recipe();
  const Study whole = rising_study(recipe, 160, kModelHorizon);
  const auto prior =
      std::make_shared<const CubePrior>(tiny_prior(3).condition({}));
  SurrogateModel model(recipe, kModelHorizon, {.prior = prior});
  for (const int64_t seen : {700, 1500, 2400, 3200}) {
    model.update(first_reports(whole, seen));
    for (const double chance : model.log_chance(queries(), 0.01)) {
      CHECK(std::isfinite(chance));
    }
  }
  CHECK(std::abs(whole.trial(model.leader().trial).unit[0] - 0.6) < 0.05);
  const Prediction p = model.predict({{0.6, 0.5, 0.5}, kModelHorizon});
  CHECK(p.mean == doctest::Approx(rising({0.6}, kModelHorizon)).epsilon(0.02));
}

TEST_CASE("a trial that was begun anew is learnt anew") {
  const Recipe recipe = rates_recipe();
  Study study = rising_study(recipe, 4, 4);
  SurrogateModel model = plain_model(recipe);
  model.update(study);
  study.trial(2).curve.resize(1);
  SurrogateModel fresh = plain_model(recipe);
  model.update(study);
  fresh.update(study);
  CHECK(model.log_chance(queries(), 0.01) == fresh.log_chance(queries(), 0.01));
}

TEST_CASE("what is expected of an accuracy is one") {
  const Recipe recipe = rates_recipe();
  Study study = rising_study(recipe, 1, 1);
  SurrogateModel model = plain_model(recipe);
  model.update(study);
  const Prediction p = model.predict({study.trial(1).unit, kModelHorizon});
  CHECK(p.low >= 0);
  CHECK(p.high <= 1);
  CHECK(p.low < p.high);
}

TEST_CASE(
    "an accuracy that ends far below the recorded ones has its own scale") {
  const Recipe recipe = rates_recipe();
  Study study = make_study(recipe, kModelHorizon);
  for (const double u : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    const TrialId id = add_unit_trial(study, {u, 0.5, 0.5});
    for (int step = 1; step <= kModelHorizon; ++step) {
      report(study, id, 0.4 * rising({u}, step));
    }
  }
  SurrogateModel model = plain_model(recipe);
  model.update(study);
  const Prediction p = model.predict({{0.6, 0.5, 0.5}, kModelHorizon});
  CHECK(std::abs(p.mean - 0.35) < 0.05);
  CHECK(p.high < 0.5);
}

TEST_CASE("what starts and what goes on is judged as many steps ahead") {
  const SurrogateModel model = {rates_recipe(), 51, {}};
  for (const int ahead : {1, 5, 17}) {
    for (const int steps : model.ladder()) {
      const int to = model.step_within(steps, ahead);
      CAPTURE(steps);
      CHECK(to >= std::min(steps + ahead, model.horizon()));
      // No rung of the ladder lies between.
      CHECK(model.next_step(steps + ahead - 1) == to);
    }
    CHECK(model.step_within(0, ahead) == model.next_step(ahead - 1));
  }
}

TEST_CASE("a loss is predicted in its own units, smaller being better") {
  Recipe recipe = rates_recipe();
  recipe.objective = {"val_loss", Goal::minimize};
  Study study = make_study(recipe, kModelHorizon);
  for (const double u : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    const TrialId id = add_unit_trial(study, {u, 0.5, 0.5});
    for (int step = 1; step <= 4; ++step) {
      report(study, id, 40 * (1.5 - rising({u}, step)));
    }
  }
  SurrogateModel model = plain_model(recipe);
  model.update(study);
  CHECK(model.leader().trial != 1);
  const Prediction p = model.predict({study.trial(3).unit, 4});
  CHECK(p.low <= p.mean);
  CHECK(p.mean <= p.high);
  CHECK(p.mean == doctest::Approx(40 * (1.5 - rising({0.5}, 4))).epsilon(0.1));
}

TEST_CASE("ten thousand reports are thinned out, and the leader is kept") {
  Recipe recipe = rates_recipe();
  recipe.space = SearchSpace({cube()[0]});
  Study study = make_study(recipe, 200);
  for (TrialId id = 1; id <= 51; ++id) {
    add_unit_trial(study, {0.02 * double(id - 1)});
    for (int step = 1; step <= 200; ++step) {
      report(study, id, rising(study.trial(id).unit, step));
    }
  }
  REQUIRE(study.reports == 10'200);
  SurrogateModel model(recipe, 200, {});
  model.update(study);
  CHECK(std::abs(study.trial(model.leader().trial).unit[0] - 0.6) < 0.1);
  const std::vector<ModelQuery> asked = {{{0.6}, 200}, {{0.1}, 3}};
  for (const double chance : model.log_chance(asked, 0.01)) {
    CHECK(std::isfinite(chance));
  }
}

TEST_CASE(
    "the weight of recorded curves falls where a study is their opposite") {
  const Recipe recipe = rates_recipe();
  const auto prior =
      std::make_shared<const CubePrior>(tiny_prior(3).condition({}));
  const auto trust_in = [&](double sign) {
    Study study = make_study(recipe, kModelHorizon);
    Rng rng(7);
    const CubeMap map(recipe);
    SurrogateModel model(recipe, kModelHorizon, {.prior = prior});
    for (int i = 0; i < 12; ++i) {
      const TrialId id =
          add_unit_trial(study, {rng.uniform(), rng.uniform(), rng.uniform()});
      const double off = map.cube_point(study.trial(id).unit).log10_lr + 2.0;
      for (int step = 1; step <= 4; ++step) {
        const double learnt = 1 - std::exp(-step * 2.55 / 8);
        report(study, id,
               0.1 + (sign > 0 ? 0.7 - 0.1 * off * off : 0.1 * off * off) *
                         learnt);
      }
    }
    model.update(study);
    return learnt_trust(model);
  };
  const double alike = trust_in(1);
  const double opposite = trust_in(-1);
  CAPTURE(alike);
  CHECK(opposite < 0.5);
  CHECK(opposite < alike);
}
