// The freeze-thaw scheduler with its own and with other samplers.
#include <algorithm>
#include <cmath>

#include "surrogate/tiny_cubes.h"
#include "tuner/model_sampling.h"
#include "tuner/simulation.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/tuner/curves.h"
#include "dtune/tuner/factory.h"
#include "dtune/tuner/surrogate_model.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kHorizon = 24;
constexpr int kBrief = 10;

Recipe learnt_recipe(const std::string& sampler, uint64_t seed, int trials) {
  Recipe recipe = cube_recipe(sampler, "freeze-thaw", seed, trials);
  std::vector<Parameter> parameters = cube();
  parameters[0].key = "train.lr";
  parameters[1].key = "train.l2";
  parameters[2].key = "model.dropout";
  recipe.space = SearchSpace(std::move(parameters));
  return recipe;
}

struct Run {
  Study study;
  std::vector<std::string> log;
};

Run run(const Recipe& recipe, const Options& options, int horizon = kHorizon) {
  static const auto prior = std::make_shared<const LearntPrior>(tiny_prior(3));
  Run result{make_study(recipe, horizon), {}};
  const Tuner tuner =
      make_tuner(recipe, horizon, {.prior = prior, .without_network = true});
  result.log =
      simulate(result.study, *tuner.sampler, *tuner.scheduler, options);
  return result;
}

Options slots(int count, Curve curve = smooth_curve) {
  Options options;
  options.slots = count;
  options.curve = std::move(curve);
  return options;
}

}  // namespace

TEST_CASE("eight slots never train two trials at one point") {
  for (const std::string sampler : {"convlstm", "plain-gp"}) {
    const Run result = run(learnt_recipe(sampler, 3, 16), slots(8));
    CHECK(result.study.trials.size() == 16);
    CHECK(duplicate_points(result.study) == 0);
  }
}

TEST_CASE("the same study gets the same decisions") {
  const Recipe recipe = learnt_recipe("convlstm", 5, 12);
  CHECK(run(recipe, slots(3)).log == run(recipe, slots(3)).log);
}

TEST_CASE("the leader is trained to its end once nothing may be started") {
  for (const std::string sampler :
       {"convlstm", "plain-gp", "random", "tpe", "gp", "grid"}) {
    CAPTURE(sampler);
    const Run result = run(learnt_recipe(sampler, 2, 8), slots(2));
    CHECK(result.study.trials.size() == 8);
    const auto ended = std::count_if(
        result.study.trials.begin(), result.study.trials.end(),
        [](const Trial& t) { return t.state == TrialState::complete; });
    CHECK(ended >= 1);
    CHECK(incumbent(result.study)->state == TrialState::complete);
  }
}

TEST_CASE("trials that were stopped on the way go on first") {
  const Recipe recipe = learnt_recipe("plain-gp", 2, 10);
  const Tuner tuner = make_tuner(recipe, kHorizon);
  Study study = make_study(recipe, kHorizon);
  Options options = slots(3);
  options.stop_after_reports = 25;
  simulate(study, *tuner.sampler, *tuner.scheduler, options);
  const auto stopped = std::find_if(
      study.trials.begin(), study.trials.end(), [](const Trial& t) {
        return t.state == TrialState::paused && t.steps() < t.target_step;
      });
  REQUIRE(stopped != study.trials.end());
  const Directive d = tuner.scheduler->next(study, *tuner.sampler, 999, true);
  CHECK(d.kind == Directive::Kind::resume);
  CHECK(d.trial == stopped->id);
  CHECK(d.target_step >= stopped->target_step);
}

TEST_CASE("a hopeless trial is cut for a probability that is named") {
  Recipe recipe = learnt_recipe("random", 4, 6);
  recipe.scheduler.options["epsilon"] = 0.2;
  const Tuner tuner = make_tuner(recipe, kHorizon);
  Study study = make_study(recipe, kHorizon);
  simulate(study, *tuner.sampler, *tuner.scheduler, slots(1));
  // A trial that is far behind after many reports has no chance left.
  Trial& last = study.trials.front();
  const Trial* best = incumbent(study);
  Trial& victim = best->id == last.id ? study.trials.back() : last;
  victim.curve.clear();
  for (int step = 1; step <= 9; ++step) {
    victim.curve.push_back({step, {{"val_accuracy", 0.05}}});
  }
  victim.state = TrialState::running;
  const Verdict verdict = tuner.scheduler->judge(study, victim, true);
  CHECK(verdict.kind == Verdict::Kind::cut);
  CHECK(verdict.reason == Reason::hopeless);
  CHECK(verdict.why.find("P(beats the leader") != std::string::npos);
}

TEST_CASE("in a brief study a trial that may win trains on") {
  const auto steps_of_first = [](int horizon) {
    const Recipe recipe = learnt_recipe("convlstm", 1, 6);
    const Tuner tuner = make_tuner(recipe, horizon);
    Study study = make_study(recipe, horizon);
    Options options = slots(1);
    options.stop_after_reports = horizon;
    simulate(study, *tuner.sampler, *tuner.scheduler, options);
    return study.trials.front().steps();
  };
  // The first one leads until there is another.
  CHECK(steps_of_first(kBrief) == kBrief);
  CHECK(steps_of_first(kHorizon) < kHorizon);
  // One far behind is paused, or cut where it has been looked at often.
  const Recipe recipe = learnt_recipe("random", 4, 6);
  const Tuner tuner = make_tuner(recipe, kBrief);
  Study study = make_study(recipe, kBrief);
  simulate(study, *tuner.sampler, *tuner.scheduler, slots(1));
  const Trial* best = incumbent(study);
  Trial& victim = study.trials[best->id == 1 ? 1 : 0];
  victim.curve = {{1, {{"val_accuracy", 0.05}}}};
  victim.state = TrialState::running;
  CHECK(tuner.scheduler->judge(study, victim, true).kind !=
        Verdict::Kind::go_on);
}

TEST_CASE("decisions go by the expected gain and say so") {
  for (const int horizon : {kBrief, kHorizon}) {
    const Recipe recipe = learnt_recipe("plain-gp", 1, 3);
    Run result = run(recipe, slots(1), horizon);
    const Tuner tuner = make_tuner(recipe, horizon);
    const auto proposal = tuner.sampler->propose(result.study, 99);
    CHECK(proposal->why.find("E(gain at step ") == 0);
  }
}

namespace {

// Without a convolution, so that the prior of many data sets fits.
Recipe dense_recipe(const std::string& sampler, uint64_t seed, int trials) {
  Recipe recipe = learnt_recipe(sampler, seed, trials);
  LayerSpec layer;
  layer.kind = LayerKind::linear;
  layer.channels = 32;
  recipe.model.layers = {layer};
  return recipe;
}

bool opens(const Sampler::Proposal& proposal) {
  return proposal.why.find("suit most recorded studies") != std::string::npos;
}

}  // namespace

TEST_CASE("a study begins with points of recorded ones, two looks at each") {
  const Recipe recipe = dense_recipe("convlstm", 1, 9);
  const Tuner tuner = make_tuner(recipe, kHorizon, {.without_network = true});
  Study study = make_study(recipe, kHorizon);
  const std::vector<int> ladder = make_ladder(kHorizon);
  constexpr size_t kOpening = 5;
  Options options = slots(1);
  options.stop_after_reports = int(kOpening) * ladder[1];
  simulate(study, *tuner.sampler, *tuner.scheduler, options);
  REQUIRE(study.trials.size() == kOpening);
  for (const Trial& trial : study.trials) CHECK(trial.steps() == ladder[1]);
  CHECK(duplicate_points(study) == 0);
  CHECK_FALSE(opens(*tuner.sampler->propose(study, 99)));
  CHECK(
      tuner.scheduler->describe_plan(recipe, kHorizon).at(1) ==
      "first 5 points that suit most recorded studies, and more of them while "
      "slots are free and nothing was reported, to step 2 each");
}

TEST_CASE("points of an opening are known again where values have steps") {
  Recipe recipe = dense_recipe("convlstm", 1, 9);
  std::vector<Parameter> parameters = recipe.space.parameters();
  for (Parameter& p : parameters) {
    if (p.name == "lr") p.quantum = (p.high - p.low) / 1000;
  }
  recipe.space = SearchSpace(std::move(parameters));
  const Tuner tuner = make_tuner(recipe, kHorizon, {.without_network = true});
  Study study = make_study(recipe, kHorizon);
  Options options = slots(1);
  options.stop_after_reports = 5 * make_ladder(kHorizon)[1];
  simulate(study, *tuner.sampler, *tuner.scheduler, options);
  REQUIRE(study.trials.size() == 5);
  for (const Trial& trial : study.trials) CHECK(trial.steps() == 2);
}

TEST_CASE("slots that are free before any report get points of recorded ones") {
  for (const int horizon : {kBrief, kHorizon}) {
    const Recipe recipe = dense_recipe("convlstm", 1, 9);
    const Tuner tuner = make_tuner(recipe, horizon, {.without_network = true});
    Study study = make_study(recipe, horizon);
    std::vector<std::string> begun;
    for (TrialId id = 1; id <= 8; ++id) {
      const auto proposal = tuner.sampler->propose(study, id);
      // A brief study begins at the best point of all recorded ones.
      CHECK(opens(*proposal) == (id > 1 || horizon == kHorizon));
      Trial trial;
      trial.id = id;
      trial.point = proposal->point;
      trial.unit = recipe.space.encode(trial.point);
      trial.state = TrialState::running;
      study.trials.push_back(trial);
    }
    CHECK(duplicate_points(study) == 0);
    study.trials[0].curve = {{1, {{"val_accuracy", 0.5}}}};
    study.reports = 1;
    CHECK_FALSE(opens(*tuner.sampler->propose(study, 9)));
    // Of the eight in a long study each gets two looks.
    for (Trial& trial : study.trials) {
      trial.curve = {{1, {{"val_accuracy", 0.5}}}};
      trial.target_step = 1;
      const auto verdict = tuner.scheduler->judge(study, trial, true);
      if (horizon == kHorizon) CHECK(verdict.kind == Verdict::Kind::go_on);
    }
  }
}

TEST_CASE(
    "only long studies without other points to begin with have an opening") {
  const auto first = [](const Recipe& recipe, int horizon) {
    const Tuner tuner = make_tuner(recipe, horizon, {.without_network = true});
    return *tuner.sampler->propose(make_study(recipe, horizon), 1);
  };
  const Recipe recipe = dense_recipe("convlstm", 1, 6);
  CHECK(opens(first(recipe, kHorizon)));
  CHECK(opens(first(dense_recipe("learnt-gp", 1, 6), kHorizon)));
  CHECK_FALSE(opens(first(recipe, kBrief)));
  CHECK_FALSE(opens(first(dense_recipe("plain-gp", 1, 6), kHorizon)));
  const Recipe cnn = learnt_recipe("convlstm", 1, 6);
  CHECK(opens(first(cnn, kHorizon)));
  CHECK_FALSE(opens(first(cnn, kBrief)));
  // What suits most of three data sets may suit another by chance.
  const auto few = std::make_shared<const LearntPrior>(tiny_prior(3));
  for (const std::string& line :
       make_tuner(cnn, kHorizon, {.prior = few, .without_network = true})
           .scheduler->describe_plan(cnn, kHorizon)) {
    CHECK(line.find("points that suit") == std::string::npos);
  }
  Recipe expects = recipe;
  std::vector<Parameter> parameters = recipe.space.parameters();
  parameters[0].prior = 0.01;
  expects.space = SearchSpace(std::move(parameters));
  CHECK_FALSE(opens(first(expects, kHorizon)));
}

TEST_CASE("in a brief study a leader whose curve does not move is paused") {
  const Tuner tuner = make_tuner(learnt_recipe("convlstm", 1, 6), kBrief);
  Study study = make_study(learnt_recipe("convlstm", 1, 6), kBrief);
  Trial trial;
  trial.id = 1;
  trial.point = tuner.sampler->propose(study, 1)->point;
  trial.unit = study.recipe.space.encode(trial.point);
  trial.state = TrialState::running;
  trial.curve = {{1, {{"val_accuracy", 0.1}}}};
  study.trials.push_back(trial);
  const auto verdict = [&](double second) {
    study.trials[0].curve = {{1, {{"val_accuracy", 0.1}}},
                             {2, {{"val_accuracy", second}}}};
    const Tuner fresh = make_tuner(study.recipe, kBrief);
    return fresh.scheduler->judge(study, study.trials[0], true).kind;
  };
  // It leads either way: there is no other one.
  CHECK(verdict(0.15) == Verdict::Kind::go_on);
  CHECK(verdict(0.11) == Verdict::Kind::pause);  // noise
  CHECK(verdict(0.1) == Verdict::Kind::pause);
  CHECK(verdict(0.09) == Verdict::Kind::pause);
}

TEST_CASE("where nothing learns the next learning rate is far off") {
  const Recipe recipe = learnt_recipe("convlstm", 1, 6);
  Study study = make_study(recipe, kBrief);
  const auto propose = [&](double second) {
    if (!study.trials.empty()) {
      study.trials.back().state = TrialState::paused;
      study.trials.back().curve = {{1, {{"val_accuracy", 0.1}}},
                                   {2, {{"val_accuracy", second}}}};
    }
    const auto proposal = make_tuner(recipe, kBrief).sampler->propose(study, 1);
    return study.recipe.space.encode(proposal->point);
  };
  const size_t lr = *recipe.space.find("lr");
  std::vector<double> tried;
  for (int i = 0; i < 3; ++i) {
    const std::vector<double> unit = propose(0.105);
    for (const double other : tried) {
      CHECK(std::abs(unit[lr] - other) > 0.2);
    }
    tried.push_back(unit[lr]);
    Trial trial;
    trial.id = i + 1;
    trial.unit = unit;
    trial.point = study.recipe.space.decode(unit);
    study.trials.push_back(trial);
  }
  // Once something was learnt, chances decide.
  const std::vector<double> flat = propose(0.105);
  CHECK(nothing_learnt(study));
  CHECK(propose(0.6) != flat);
  CHECK_FALSE(nothing_learnt(study));
}

TEST_CASE("recorded studies that mislead cost little") {
  // Best where the recorded ones are worst.
  const Curve reversed = [](const Trial& trial, int step) {
    const double off = std::log10(*as_number(trial.point.at("lr"))) + 4;
    return (0.9 - 0.05 * off * off) * (1 - std::exp(-0.3 * step));
  };
  const auto mean_best_of = [&](const std::string& sampler) {
    double sum = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const Run result =
          run(learnt_recipe(sampler, seed, 14), slots(1, reversed), 20);
      sum += *best_value({}, *incumbent(result.study)) / 8;
    }
    return sum;
  };
  CHECK(mean_best_of("convlstm") > mean_best_of("plain-gp") - 0.05);
}

TEST_CASE("studies with words, conditions and constraints are tuned") {
  Recipe recipe = learnt_recipe("convlstm", 1, 12);
  recipe.space = mixed_space();
  const Run result = run(recipe, slots(3, [](const Trial& trial, int step) {
                           return mixed_function(trial.point) - 1.0 / step;
                         }));
  CHECK(result.study.trials.size() == 12);
  CHECK(duplicate_points(result.study) == 0);
}

TEST_CASE("the search of a small space ends when it has no point left") {
  Recipe recipe = learnt_recipe("plain-gp", 1, 100);
  Parameter width;
  width.name = "width";
  width.kind = ParameterKind::integer;
  width.low = 1;
  width.high = 4;
  recipe.space = SearchSpace({width});
  CHECK(run(recipe, slots(3)).study.trials.size() == 4);
}

TEST_CASE("commands without a horizon are tuned by where they end") {
  const Recipe recipe = learnt_recipe("plain-gp", 1, 5);
  const Tuner tuner = make_tuner(recipe, kOpenHorizon);
  Study study = make_study(recipe, kOpenHorizon);
  for (int i = 1; i <= 5; ++i) {
    const Directive d = tuner.scheduler->next(study, *tuner.sampler, i, true);
    REQUIRE(d.kind == Directive::Kind::start);
    Trial trial;
    trial.id = i;
    trial.point = d.point;
    trial.unit = recipe.space.encode(d.point);
    trial.state = TrialState::complete;
    for (int step = 1; step <= i; ++step) {
      trial.curve.push_back({step, {{"val_accuracy", 0.1 * i}}});
    }
    trial.curve.back().last = true;
    study.trials.push_back(trial);
  }
  CHECK(duplicate_points(study) == 0);
  CHECK(tuner.scheduler->leader(study)->trial > 1);
  CHECK(tuner.scheduler->next(study, *tuner.sampler, 6, false).kind ==
        Directive::Kind::finish);
}

TEST_CASE("an epsilon that is not a small probability is refused") {
  for (const double epsilon : {-0.1, 0.6, 2.0}) {
    Recipe recipe = learnt_recipe("plain-gp", 1, 5);
    recipe.scheduler.options["epsilon"] = epsilon;
    CHECK_THROWS_AS(make_tuner(recipe, kHorizon), Error);
  }
}

namespace {

class NothingNew final : public Sampler {
 public:
  std::optional<Proposal> propose(const Study& /*study*/,
                                  int64_t /*decision*/) override {
    return std::nullopt;
  }
};

// The trial that goes on, of two with the same curve.
TrialId preferred(std::optional<Value> prior) {
  Recipe recipe = cube_recipe("plain-gp", "freeze-thaw", 1, 0);
  std::vector<Parameter> parameters = {cube()[2]};
  parameters[0].prior = std::move(prior);
  parameters[0].confidence = Confidence::high;
  recipe.space = SearchSpace(std::move(parameters));
  Study study = make_study(recipe, kHorizon);
  for (const double unit : {0.2, 0.8}) {
    Trial trial;
    trial.id = std::ssize(study.trials) + 1;
    trial.point = recipe.space.decode(std::vector<double>{unit});
    trial.unit = recipe.space.encode(trial.point);
    trial.seed = uint64_t(trial.id);
    trial.state = TrialState::paused;
    trial.target_step = 1;
    StepReport report;
    report.step = 1;
    report.sequence = ++study.reports;
    report.metrics[recipe.objective.metric] = 0.5;
    trial.curve.push_back(report);
    study.trials.push_back(std::move(trial));
  }
  const Tuner tuner = make_tuner(recipe, kHorizon);
  NothingNew sampler;
  const Directive d = tuner.scheduler->next(study, sampler, 3, true);
  CHECK(d.kind == Directive::Kind::resume);
  return d.trial;
}

}  // namespace

TEST_CASE("a user's prior weighs paused trials as it does new points") {
  const Parameter dropout = cube()[2];
  const double width = dropout.high - dropout.low;
  CHECK(preferred(dropout.low + 0.2 * width) == 1);
  CHECK(preferred(dropout.low + 0.8 * width) == 2);
}

TEST_CASE("a paused trial that became hopeless is given up") {
  Recipe recipe = learnt_recipe("random", 4, 6);
  recipe.scheduler.options["epsilon"] = 0.2;
  const Tuner tuner = make_tuner(recipe, kHorizon);
  Study study = make_study(recipe, kHorizon);
  simulate(study, *tuner.sampler, *tuner.scheduler, slots(1));
  const Trial* best = incumbent(study);
  Trial& victim = best->id == 1 ? study.trials.back() : study.trials.front();
  victim.curve.clear();
  for (int step = 1; step <= 9; ++step) {
    victim.curve.push_back({step, {{"val_accuracy", 0.05}}});
  }
  victim.state = TrialState::paused;
  victim.target_step = 9;
  const auto dismissal = tuner.scheduler->dismiss(study, false);
  REQUIRE(dismissal);
  CHECK(dismissal->trial == victim.id);
  CHECK(dismissal->reason == Reason::hopeless);
  CHECK(dismissal->why.find("by now, below 0.2") != std::string::npos);
}

TEST_CASE("where there must be room the least promising paused trial goes") {
  const Recipe recipe = learnt_recipe("plain-gp", 2, 10);
  const Tuner tuner = make_tuner(recipe, kHorizon);
  Study study = make_study(recipe, kHorizon);
  Options options = slots(1);
  options.stop_after_reports = 30;
  simulate(study, *tuner.sampler, *tuner.scheduler, options);
  for (Trial& trial : study.trials) trial.target_step = trial.steps();
  const TrialId leader = tuner.scheduler->leader(study)->trial;
  int given_up = 0;
  while (const auto one = tuner.scheduler->dismiss(study, true)) {
    CHECK(one->trial != leader);
    CHECK(study.trial(one->trial).state == TrialState::paused);
    study.trial(one->trial).state = TrialState::cut;
    ++given_up;
  }
  CHECK(given_up > 2);
}

TEST_CASE("decisions say what they expect") {
  const Run result = run(learnt_recipe("plain-gp", 2, 8), slots(1));
  const auto expects = std::count_if(
      result.log.begin(), result.log.end(), [](const std::string& line) {
        return line.find(fmt::format("is expected at step {}", kHorizon)) !=
               std::string::npos;
      });
  CHECK(expects >= 5);
}

TEST_CASE("the chance of a gain falls once a search has found what there is") {
  double early = 0;
  double late = 0;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const Recipe recipe = learnt_recipe("plain-gp", seed, 30);
    const Tuner tuner = make_tuner(recipe, kHorizon);
    Study study = make_study(recipe, kHorizon);
    Options options = slots(1);
    options.stop_after_reports = 100;
    simulate(study, *tuner.sampler, *tuner.scheduler, options);
    early += tuner.scheduler->chance_of_gain(study, 0.001, 0.2).value();
    options.stop_after_reports = -1;
    simulate(study, *tuner.sampler, *tuner.scheduler, options);
    late += tuner.scheduler->chance_of_gain(study, 0.001, 0.2).value();
    CHECK(*tuner.scheduler->chance_of_gain(study, 0.5, 0.2) < 0.05);
  }
  CHECK(early > late);
}

TEST_CASE("listed points are started before any other") {
  Recipe recipe = learnt_recipe("convlstm", 3, 8);
  for (const double u : {0.9, 0.1, 0.5}) {
    recipe.points.push_back(recipe.space.decode(std::vector{u, u, 0.3}));
  }
  const Run result = run(recipe, slots(2));
  REQUIRE(result.study.trials.size() == 8);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(result.study.trials[i].point == recipe.points[i]);
  }
  CHECK(result.study.trials[3].point != recipe.points[0]);
}
