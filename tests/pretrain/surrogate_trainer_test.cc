#include "dtune/pretrain/surrogate_trainer.h"

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

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

SurrogateTrainOptions tiny_training(unsigned threads) {
  SurrogateTrainOptions options;
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

TEST_CASE("training makes the same weights with one thread and with three") {
  const StudySampler sampler = tiny_sampler(0.35);
  const TrainedSurrogate one = train_surrogate(sampler, {}, tiny_training(1));
  const TrainedSurrogate three = train_surrogate(sampler, {}, tiny_training(3));
  CHECK(one.samples == 32);
  CHECK(same(one.network, three.network));
  SurrogateTrainOptions other = tiny_training(1);
  other.seed = 2;
  CHECK(!same(one.network, train_surrogate(sampler, {}, other).network));
}

TEST_CASE("a trained network predicts what it saw better than heavy tails") {
  const StudySampler sampler = tiny_sampler(0);
  const std::vector<TrainingSample> validation = draw_samples(sampler, 9, 4, 1);
  SurrogateTrainOptions options = tiny_training(1);
  options.samples = 160;
  options.rate = 1e-2;
  options.average = 0.9;
  std::vector<SurrogateTrainProgress> reports;
  options.progress = [&](const SurrogateTrainProgress& p) {
    reports.push_back(p);
  };
  const TrainedSurrogate trained =
      train_surrogate(sampler, validation, options);
  const LogScores scores = log_scores(trained.network, validation, 1);
  CHECK(scores.network_all > scores.heavy_all);
  CHECK(reports.size() == 2);
  CHECK(reports.back().samples == trained.samples);
  CHECK(reports.back().validation.network_all ==
        doctest::Approx(scores.network_all));
}
