#include "dtune/review/importance.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune {
namespace {

Parameter real(const std::string& name, double low, double high, bool log) {
  Parameter parameter;
  parameter.name = name;
  parameter.low = low;
  parameter.high = high;
  parameter.log = log;
  return parameter;
}

// val_accuracy = f(unit) (1 - 0.5 / step), curves of different lengths.
template <class Function>
Study make_study(int trials, Function f) {
  Study study;
  study.horizon = 16;
  study.recipe.space =
      SearchSpace({real("lr", 1e-4, 1, true), real("l2", 1e-6, 1e-2, true),
                   real("dropout", 0, 1, false)});
  Rng rng(7);
  for (int i = 1; i <= trials; ++i) {
    Trial trial;
    trial.id = i;
    const std::vector<double> unit = {rng.uniform(), rng.uniform(),
                                      rng.uniform()};
    trial.point = study.recipe.space.decode(unit);
    const int steps = i % 3 == 0 ? 16 : i % 3 == 1 ? 4 : 2;
    for (int step = 1; step <= steps; ++step) {
      StepReport report;
      report.step = step;
      report.metrics["val_accuracy"] = f(unit) * (1 - 0.5 / step);
      trial.curve.push_back(report);
    }
    study.trials.push_back(trial);
  }
  return study;
}

double share_of(const Importance& importance, const std::string& name) {
  for (const auto& parameter : importance.parameters) {
    if (parameter.name == name) return parameter.share;
  }
  return -1;
}

}  // namespace

TEST_CASE(
    "what matters is distinguished from what does not, and where it is best") {
  const Study study = make_study(120, [](const std::vector<double>& u) {
    return 0.9 - (u[0] - 0.5) * (u[0] - 0.5) - 0.05 * u[2];
  });
  const auto importance = parameter_importance(study);
  REQUIRE(importance);
  CHECK(importance->trials == 120);
  CHECK(importance->parameters[0].name == "lr");
  CHECK(share_of(*importance, "lr") > 0.7);
  CHECK(share_of(*importance, "l2") < 0.08);
  double sum = importance->together;
  for (const auto& parameter : importance->parameters) sum += parameter.share;
  CHECK(sum == doctest::Approx(1).epsilon(0.01));
  // The middle of [1e-4, 1] in the logarithm is 1e-2.
  const double best = std::get<double>(*importance->parameters[0].best);
  CHECK(std::abs(std::log10(best) + 2) < 0.8);
}

TEST_CASE("mean effects have the shape of what made the results") {
  const auto importance =
      parameter_importance(make_study(120, [](const std::vector<double>& u) {
        return 0.9 - 2 * (u[0] - 0.5) * (u[0] - 0.5) - 0.2 * u[2];
      }));
  REQUIRE(importance);
  const ParameterImportance& lr = importance->parameters[0];
  REQUIRE(lr.effect.size() == kEffectPlaces);
  CHECK(lr.effect[kEffectPlaces / 2].mean > lr.effect.front().mean + 0.1);
  CHECK(lr.effect[kEffectPlaces / 2].mean > lr.effect.back().mean + 0.1);
  CHECK(lr.effect.front().deviation > 0);
  CHECK(lr.deviation > 0);
  CHECK(lr.deviation < 0.3);
  // A row for each cell of the first: the mean over it is the first's effect.
  const PairEffect& pair = importance->pairs.front();
  CHECK(pair.first == "lr");
  CHECK(pair.second == "dropout");
  REQUIRE(pair.values.size() == kPairPlaces * kPairPlaces);
  double middle = 0, edge = 0;
  for (size_t i = 0; i < kPairPlaces; ++i) {
    middle += pair.values[kPairPlaces / 2 * kPairPlaces + i] / kPairPlaces;
    edge += pair.values[i] / kPairPlaces;
  }
  CHECK(middle > edge + 0.1);
  CHECK(edge == doctest::Approx(lr.effect[1].mean).epsilon(0.05));
}

namespace {

// As make_study, with a word; `value` NaN: the trial breaks without a report.
template <class Function>
Study broken_study(int trials, Function value) {
  Parameter kind;
  kind.name = "kind";
  kind.kind = ParameterKind::categorical;
  kind.choices = {Value(std::string("plain")), Value(std::string("deep")),
                  Value(std::string("wide"))};
  Study study;
  study.horizon = 8;
  study.recipe.space =
      SearchSpace({real("lr", 1e-5, 1, true), kind, real("idle", 0, 1, false)});
  Rng rng(11);
  for (int i = 1; i <= trials; ++i) {
    Trial trial;
    trial.id = i;
    trial.point = study.recipe.space.decode(
        std::vector<double>{rng.uniform(), rng.uniform(), rng.uniform()});
    const double result = value(std::log10(std::get<double>(trial.point["lr"])),
                                std::get<std::string>(trial.point["kind"]));
    if (std::isnan(result)) {
      trial.state = TrialState::failed;
    } else {
      StepReport report;
      report.step = 8;
      report.metrics["val_accuracy"] = result + 0.02 * rng.normal();
      trial.curve.push_back(report);
      trial.state = TrialState::complete;
    }
    study.trials.push_back(trial);
  }
  return study;
}

std::optional<Value> best_of(const Importance& importance,
                             const std::string& name) {
  for (const auto& parameter : importance.parameters) {
    if (parameter.name == name) return parameter.best;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a region where every trial broke is never named the best") {
  const Study study =
      broken_study(60, [](double log_lr, const std::string& kind) {
        if (log_lr < -3 || kind == "plain") return double{NAN};
        return 0.9 - 0.1 * (log_lr + 3) - (kind == "wide" ? 0.1 : 0);
      });
  const auto importance = parameter_importance(study);
  REQUIRE(importance);
  CHECK(importance->failures > 20);
  CHECK(importance->failures + importance->trials == 60);
  const auto lr = best_of(*importance, "lr");
  REQUIRE(lr);
  CHECK(std::abs(std::log10(std::get<double>(*lr)) + 2.6) < 0.6);
  CHECK(best_of(*importance, "kind") == Value(std::string("deep")));
}

TEST_CASE("the best place of what makes no difference is not known") {
  const Study study =
      broken_study(60, [](double log_lr, const std::string& /*kind*/) {
        return 0.9 - 0.1 * std::abs(log_lr + 2);
      });
  const auto importance = parameter_importance(study);
  REQUIRE(importance);
  CHECK(best_of(*importance, "lr"));
  CHECK_FALSE(best_of(*importance, "kind"));
  CHECK_FALSE(best_of(*importance, "idle"));
}

TEST_CASE("what only two parameters together explain is neither's own") {
  const Study study = make_study(300, [](const std::vector<double>& u) {
    return (u[0] < 0.5) == (u[1] < 0.5) ? 0.9 : 0.5;
  });
  const auto importance = parameter_importance(study);
  REQUIRE(importance);
  CHECK(importance->together > 0.5);
}

TEST_CASE("too few results, or equal ones, have no importance") {
  const auto one = [](const std::vector<double>&) { return 0.0; };
  CHECK_FALSE(parameter_importance(make_study(40, one)));
  CHECK_FALSE(parameter_importance(Study{}));
  const auto other = [](const std::vector<double>& u) { return u[0]; };
  CHECK_FALSE(parameter_importance(make_study(7, other)));
  Study nan = make_study(40, [](const std::vector<double>&) { return NAN; });
  CHECK_FALSE(parameter_importance(nan));
}

TEST_CASE("results whose squares are infinite give no share of nan") {
  for (const double huge : {1e155, 1e200, 1e308}) {
    const auto importance = parameter_importance(
        make_study(12, [huge](const std::vector<double>& u) {
          return u[0] > 0.8 ? huge : u[0];
        }));
    if (!importance) continue;
    for (const auto& parameter : importance->parameters) {
      CHECK_MESSAGE(std::isfinite(parameter.share), huge);
    }
  }
}

TEST_CASE("importance is the same every time") {
  const Study study = make_study(
      30, [](const std::vector<double>& u) { return u[0] + 0.1 * u[1]; });
  const auto once = parameter_importance(study);
  const auto again = parameter_importance(study);
  REQUIRE(once);
  CHECK(once->parameters[0].share == again->parameters[0].share);
  CHECK(once->together == again->together);
}

}  // namespace dtune
