#include "dtune/tuner/factory.h"

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/surrogate/shipped.h"
#include "dtune/tuner/learnt_part.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Recipe with_sampler(const std::string& kind,
                    std::map<std::string, Value> options) {
  Recipe recipe = cube_recipe("sobol", "fifo", 0, 10);
  recipe.sampler = {kind, std::move(options)};
  return recipe;
}

Recipe with_scheduler(const std::string& kind,
                      std::map<std::string, Value> options) {
  Recipe recipe = cube_recipe("sobol", "fifo", 0, 10);
  recipe.scheduler = {kind, std::move(options)};
  return recipe;
}

}  // namespace

TEST_CASE("every kind has a name and a summary and can be made") {
  for (const NamedKind& kind : sampler_kinds()) {
    CHECK_FALSE(kind.summary.empty());
    CHECK(make_sampler(cube_recipe(kind.name, "fifo", 0, 1)) != nullptr);
  }
  for (const NamedKind& kind : scheduler_kinds()) {
    CHECK_FALSE(kind.summary.empty());
    CHECK(make_scheduler(cube_recipe("sobol", kind.name, 0, 1), 5) != nullptr);
  }
}

TEST_CASE("the defaults of a recipe can be made") {
  const Recipe recipe;
  CHECK(make_sampler(recipe) != nullptr);
  CHECK(make_scheduler(recipe, 12) != nullptr);
}

TEST_CASE("what was learnt takes part whatever the optimizer") {
  Recipe recipe = cube_recipe("convlstm", "freeze-thaw", 0, 10);
  std::vector<Parameter> parameters = cube();
  parameters[0].key = "train.lr";
  recipe.space = SearchSpace(parameters);
  const auto says = [&] {
    const Study study = make_study(recipe, 12);
    return make_tuner(recipe, 12).scheduler->explain(study).front();
  };
  for (const OptimizerKind optimizer :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    recipe.train.optimizer = optimizer;
    CHECK(says().find("learnt") != std::string::npos);
    CHECK(says().find("takes no part") == std::string::npos);
  }
  Parameter tuned;
  tuned.name = "optimizer";
  tuned.key = "train.optimizer";
  tuned.kind = ParameterKind::categorical;
  tuned.choices = {std::string("sgd"), std::string("adam")};
  parameters.push_back(tuned);
  recipe.space = SearchSpace(parameters);
  CHECK(says().find("takes no part") == std::string::npos);
}

TEST_CASE("a command whose parameters have roles uses the learnt prior") {
  Recipe recipe = cube_recipe("convlstm", "freeze-thaw", 0, 10);
  std::vector<Parameter> parameters = cube();
  for (Parameter& p : parameters) p.key.clear();
  recipe.space = SearchSpace(parameters);
  recipe.command = CommandSpec{};
  const auto says = [&] {
    const Study study = make_study(recipe, 12);
    return make_tuner(recipe, 12).scheduler->explain(study).front();
  };
  CHECK(says() ==
        "trusts plain 100% (the learnt prior takes no part: no parameter of "
        "the command has a role (space: role: learning_rate, l2 or dropout))");
  parameters[0].role = ParameterRole::learning_rate;
  recipe.space = SearchSpace(parameters);
  CHECK(says().find("takes no part") == std::string::npos);
  CHECK(says().find("learnt") != std::string::npos);
  // Its own optimizer is looked at as train.optimizer is.
  Parameter tuned;
  tuned.name = "optimizer";
  tuned.kind = ParameterKind::categorical;
  tuned.choices = {std::string("sgd"), std::string("adam")};
  parameters.push_back(tuned);
  recipe.space = SearchSpace(parameters);
  CHECK(says().find("takes no part") == std::string::npos);
}

TEST_CASE(
    "a CNN has prior and network of CNNs, another model those of tables") {
  Recipe recipe;
  CHECK(&shipped_prior_for(recipe) == &shipped_cnn_prior());
  CHECK(&shipped_network_for(recipe) == &shipped_cnn_network());
  LayerSpec linear;
  linear.kind = LayerKind::linear;
  recipe.model.layers = {linear};
  CHECK(&shipped_prior_for(recipe) == &shipped_prior());
  CHECK(&shipped_network_for(recipe) == &shipped_network());
  LayerSpec conv;
  conv.kind = LayerKind::conv;
  recipe.model.layers = {conv, linear};
  CHECK(&shipped_prior_for(recipe) == &shipped_cnn_prior());
  recipe.command.emplace();
  CHECK(&shipped_prior_for(recipe) == &shipped_prior());
}

TEST_CASE("an unknown kind is named with the nearest one and all others") {
  CHECK_THROWS_WITH_AS(
      make_sampler(with_sampler("sobal", {})),
      "sampler.kind: unknown sampler 'sobal', did you mean 'sobol'? (one of "
      "convlstm, learnt-gp, plain-gp, sobol, halton, random, gp, tpe, grid)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("tpe", {}), 5),
      "scheduler.kind: 'tpe' is no scheduler, but a sampler (write sampler: "
      "tpe; scheduler is one of freeze-thaw, asha, hyperband, median, fifo)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("bohb", {}), 5),
      "scheduler.kind: unknown scheduler 'bohb' (one of freeze-thaw, asha, "
      "hyperband, median, fifo)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("hyper-band", {}), 5),
      "scheduler.kind: unknown scheduler 'hyper-band', did you mean "
      "'hyperband'? (one of freeze-thaw, asha, hyperband, median, fifo)",
      Error);
}

TEST_CASE("an unknown option is named with what the kind takes") {
  CHECK_THROWS_WITH_AS(
      make_sampler(with_sampler("grid", {{"point", int64_t{3}}})),
      "sampler.point: unknown option, did you mean 'points'? ('grid' takes "
      "points, order)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_sampler(with_sampler("random", {{"points", int64_t{3}}})),
      "sampler.points: unknown option ('random' takes no options; points is of "
      "sampler grid: for it write kind: grid)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("asha", {{"etaa", int64_t{3}}}), 9),
      "scheduler.etaa: unknown option, did you mean 'eta'? ('asha' takes mode, "
      "eta, min_steps)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("hyperband", {{"mode", Value("standard")}}),
                     9),
      "scheduler.mode: unknown option ('hyperband' takes eta, min_steps; mode "
      "is of scheduler asha: for it write kind: asha)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("fifo", {{"eta", int64_t{3}}}), 9),
      "scheduler.eta: unknown option ('fifo' takes no options; eta is of "
      "scheduler asha, hyperband: for it write kind: asha)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("freeze-thaw", {{"eta", int64_t{2}}}), 9),
      "scheduler.eta: unknown option ('freeze-thaw' takes epsilon; eta is of "
      "scheduler asha, hyperband: for it write kind: asha)",
      Error);
}

TEST_CASE("an option out of range or of the wrong type says what fits") {
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("asha", {{"eta", int64_t{1}}}), 9),
      "scheduler.eta: '1' does not fit (write a whole number from 2 to 100)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("asha", {{"eta", 2.5}}), 9),
      "scheduler.eta: '2.5' does not fit (write a whole number from 2 to 100)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("asha", {{"min_steps", int64_t{10}}}), 9),
      "scheduler.min_steps: '10' does not fit (write a whole number from 1 to "
      "9)",
      Error);
  CHECK_THROWS_WITH_AS(
      make_scheduler(with_scheduler("asha", {{"mode", Value("agressive")}}), 9),
      "scheduler.mode: unknown word 'agressive', did you mean 'aggressive'? "
      "(one of standard, aggressive, conservative)",
      Error);
}
