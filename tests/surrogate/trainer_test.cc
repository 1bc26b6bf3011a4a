#include "dtune/surrogate/trainer.h"

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

#include "dtune/surrogate/judge.h"

using namespace dtune;

namespace {

StudySampler tiny_sampler(double augmented) {
  SamplerOptions options;
  options.augmented = augmented;
  options.max_observations = 12;
  options.studies = 1;
  options.stages = 2;
  return {std::make_shared<const LearntPrior>(tiny_prior(3)), tiny_cubes(3),
          options};
}

TrainOptions tiny_training(unsigned threads) {
  TrainOptions options;
  options.samples = 32;
  options.draws = 4;
  options.batch = 4;
  options.threads = threads;
  options.shape = {.hidden = 4, .head = 16};
  options.reports = 2;
  return options;
}

bool same(const ConvLstm& a, const ConvLstm& b) {
  return std::equal(a.parameters().begin(), a.parameters().end(),
                    b.parameters().begin());
}

}  // namespace

TEST_CASE("samples have targets, weights and observations that fit") {
  const StudySampler sampler = tiny_sampler(1);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const std::vector<TrainingSample> samples = sampler.draw(seed);
    CHECK(samples.size() == sampler.samples_of_draw());
    for (const TrainingSample& s : samples) {
      CHECK(s.observations <= 12);
      REQUIRE(s.target.size() == s.study.mean.size());
      REQUIRE(s.weight.size() == s.study.mean.size());
      for (size_t i = 0; i < s.target.size(); ++i) {
        REQUIRE(std::isfinite(s.target[i]));
        REQUIRE(s.study.deviation[i] > 0);
      }
    }
  }
}

TEST_CASE("training makes the same weights with one thread and with three") {
  const StudySampler sampler = tiny_sampler(0.35);
  const TrainedNetwork one = train_network(sampler, {}, tiny_training(1));
  const TrainedNetwork three = train_network(sampler, {}, tiny_training(3));
  CHECK(one.samples == 32);
  CHECK(same(one.network, three.network));
  TrainOptions other = tiny_training(1);
  other.seed = 2;
  CHECK(!same(one.network, train_network(sampler, {}, other).network));
}

TEST_CASE("a trained network predicts what it saw better than heavy tails") {
  const StudySampler sampler = tiny_sampler(0);
  const std::vector<TrainingSample> validation = draw_samples(sampler, 9, 4, 1);
  TrainOptions options = tiny_training(1);
  options.samples = 160;
  options.rate = 1e-2;
  options.average = 0.9;
  std::vector<TrainProgress> reports;
  options.progress = [&](const TrainProgress& p) { reports.push_back(p); };
  const TrainedNetwork trained = train_network(sampler, validation, options);
  const LogScores scores = log_scores(trained.network, validation, 1);
  CHECK(scores.network_all > scores.heavy_all);
  CHECK(reports.size() == 2);
  CHECK(reports.back().samples == trained.samples);
  CHECK(reports.back().validation.network_all ==
        doctest::Approx(scores.network_all));
}

TEST_CASE("judged rows cover every predictor and number of observations") {
  JudgeOptions options;
  options.studies = 3;
  const ConvLstm network({.hidden = 4, .head = 16}, 1);
  const std::vector<JudgeRow> rows =
      judge(tiny_prior(3), network, tiny_cubes(3), options);
  REQUIRE(rows.size() == 25);
  // An untrained network answers the heavy tails.
  const JudgeRow& heavy = rows[19];
  const JudgeRow& untrained = rows[24];
  CHECK(heavy.observations == "all");
  CHECK(heavy.studies == 9);
  CHECK(untrained.log_score_all == doctest::Approx(heavy.log_score_all));
  CHECK(heavy.coverage_all > 0);
  options.threads = 2;
  CHECK(judge(tiny_prior(3), network, tiny_cubes(3), options)[24].rmse_all ==
        untrained.rmse_all);
}
