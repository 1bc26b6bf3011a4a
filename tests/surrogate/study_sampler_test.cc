#include "dtune/surrogate/study_sampler.h"

#include <cmath>

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

#include "dtune/surrogate/judge.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("samples have targets, weights and observations that fit") {
  SamplerOptions options;
  options.augmented = 1;
  options.max_observations = 12;
  options.studies = 1;
  options.stages = 2;
  const StudySampler sampler(std::make_shared<const LearntPrior>(tiny_prior(3)),
                             tiny_cubes(3), options);
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

TEST_CASE(
    "settings of one data set are siblings, unless they are all there is") {
  const std::vector<std::string> tasks = {"t-hats-sgd", "t-hats-adam",
                                          "t-hatstands-sgd", "3945"};
  using Names = std::vector<std::string>;
  CHECK(siblings("t-hats-sgd", tasks) == Names{"t-hats-sgd", "t-hats-adam"});
  CHECK(siblings("t-hats-resnet", tasks) == Names{"t-hats-sgd", "t-hats-adam"});
  CHECK(siblings("3945", tasks) == Names{"3945"});
  CHECK(siblings("a-1", {"a-1", "a-2"}) == Names{"a-1"});
}

TEST_CASE("draws are the same with one thread and with three") {
  const StudySampler sampler(std::make_shared<const LearntPrior>(tiny_prior(3)),
                             tiny_cubes(3), {.max_observations = 6});
  const auto one = draw_samples(sampler, 5, 3, 1);
  const auto three = draw_samples(sampler, 5, 3, 3);
  REQUIRE(one.size() == 3 * sampler.samples_of_draw());
  REQUIRE(one.size() == three.size());
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].target == three[i].target);
    CHECK(one[i].study.mean == three[i].study.mean);
  }
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
