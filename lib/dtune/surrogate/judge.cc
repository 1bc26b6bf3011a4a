#include "dtune/surrogate/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>

#include "dtune/base/error.h"
#include "dtune/base/parallel.h"
#include "dtune/surrogate/study_sampler.h"

namespace dtune {
namespace {

constexpr Correction kNormal = {{1, 0, 0}, {0, 0, 0}, {1, 1, 1}};
constexpr const char* kPredictors[] = {
    "plain process, normal", "plain process, heavy tails",
    "learnt process, normal", "learnt process, heavy tails", "ConvLSTM"};
constexpr size_t kPredictorCount = std::size(kPredictors);
constexpr const char* kBuckets[] = {"<5", "5-19", "20-59", "60+", "all"};
constexpr size_t kAllBucket = std::size(kBuckets) - 1;
constexpr int kFitIterations = 15;

size_t bucket_of(size_t observations) {
  if (observations < 5) return 0;
  if (observations < 20) return 1;
  return observations < 60 ? 2 : 3;
}

// Sums over values, and over studies of their means.
struct Tally {
  double count = 0;
  double log_score = 0;
  double square = 0;
  double inside = 0;

  void add(const Tally& other, double share) {
    count += share * other.count;
    log_score += share * other.log_score;
    square += share * other.square;
    inside += share * other.inside;
  }
};

struct Tallies {
  Tally final_values;
  Tally all_values;
};

// One moment of a study: what each predictor made of it.
struct Moment {
  size_t observations = 0;
  std::array<Tallies, kPredictorCount> predictors;
};

// The mean of the metric, cut to [0, 1], which all recorded metrics are in:
// Gauss and Hermite's rule with five nodes for each part (Abramowitz and
// Stegun 1964, table 25.10, for a normal of variance 1).
double expected_metric(const Correction& c, const Warp& map, double mean,
                       double deviation) {
  constexpr double kNodes[] = {-2.856970013872806, -1.355626179974266, 0,
                               1.355626179974266, 2.856970013872806};
  constexpr double kShares[] = {0.011257411327721, 0.222075922005613,
                                0.533333333333333, 0.222075922005613,
                                0.011257411327721};
  double sum = 0;
  for (size_t part = 0; part < c.weight.size(); ++part) {
    if (c.weight[part] <= 0) continue;
    for (size_t i = 0; i < std::size(kNodes); ++i) {
      const double z =
          mean + deviation * (c.shift[part] + c.scale[part] * kNodes[i]);
      sum += c.weight[part] * kShares[i] * std::clamp(map.inverse(z), 0.0, 1.0);
    }
  }
  return sum;
}

Tally tally_value(const Correction& c, const Warp& map, const TrainingSample& s,
                  size_t i) {
  const double deviation = double{s.study.deviation[i]};
  const double mean = double{s.study.mean[i]};
  const double target = double{s.target[i]};
  const double z = (target - mean) / deviation;
  const double y = map.inverse(target);
  const double above = std::exp(log_upper_tail(c, z));
  const double miss = expected_metric(c, map, mean, deviation) - y;
  return {1, log_density(c, z) - std::log(deviation) + map.log_slope(y),
          miss * miss, above > 0.05 && above < 0.95 ? 1.0 : 0.0};
}

// Means over the grid.
template <typename CorrectionAt>
Tallies tally(const TrainingSample& s, const Warp& map,
              const CorrectionAt& correction) {
  Tallies sums;
  for (size_t i = 0; i < s.target.size(); ++i) {
    if (s.weight[i] <= 0) continue;
    const Tally one = tally_value(correction(i), map, s, i);
    sums.all_values.add(one, 1);
    const bool last = i + kGridVoxels >= s.target.size();
    if (last) sums.final_values.add(one, 1);
  }
  Tallies means;
  const auto mean_into = [](Tally& into, const Tally& sum) {
    if (sum.count > 0) into.add(sum, 1 / sum.count);
  };
  mean_into(means.all_values, sums.all_values);
  mean_into(means.final_values, sums.final_values);
  return means;
}

class Judge {
 public:
  Judge(const LearntPrior& prior, const ConvLstm& network,
        const std::vector<RecordedCube>& cubes, const JudgeOptions& options)
      : prior_(prior),
        network_(network),
        options_(options),
        sampler_(std::make_shared<const LearntPrior>(prior), cubes,
                 {.augmented = 0}) {
    for (const RecordedCube& cube : cubes) tasks_[cube.task].push_back(&cube);
  }

  std::vector<JudgeRow> run() const;

 private:
  std::vector<Moment> judge_study(size_t number) const;
  Moment judge_moment(const StudyCase& study, size_t done,
                      const FreezeThawProcess& plain,
                      const FreezeThawProcess& learnt) const;

  const LearntPrior& prior_;
  const ConvLstm& network_;
  const JudgeOptions& options_;
  StudySampler sampler_;
  std::map<std::string, std::vector<const RecordedCube*>> tasks_;
};

Moment Judge::judge_moment(const StudyCase& study, size_t done,
                           const FreezeThawProcess& plain,
                           const FreezeThawProcess& learnt) const {
  const FeatureGrid& grid = sampler_.grid();
  const TrainingSample p = sample_of(plain, grid, study, done, 0);
  const TrainingSample l = sample_of(learnt, grid, study, done, 0);
  const std::vector<Correction> corrections = network_.correct(l.study);
  const auto normal = [](size_t) -> const Correction& { return kNormal; };
  const auto heavy = [](size_t) -> const Correction& { return kHeavyTails; };
  const auto by_network = [&](size_t i) -> const Correction& {
    return corrections[i];
  };
  return {done,
          {tally(p, plain.warp(), normal), tally(p, plain.warp(), heavy),
           tally(l, learnt.warp(), normal), tally(l, learnt.warp(), heavy),
           tally(l, learnt.warp(), by_network)}};
}

std::vector<Moment> Judge::judge_study(size_t number) const {
  Rng rng(mix_seed({options_.seed, hash_text("judge"), number}));
  const auto task = std::next(
      tasks_.begin(), static_cast<std::ptrdiff_t>(number % tasks_.size()));
  const RecordedCube& cube = *task->second[rng.below(task->second.size())];
  const CubeContext context = {cube.context[0], cube.context[1],
                               cube.context[2], cube.context[3]};
  const std::vector<std::string> left_out(options_.leave_out_own ? 1 : 0,
                                          cube.task);
  const auto prior =
      std::make_shared<const CubePrior>(prior_.condition(context, left_out));
  const StudyCase study = sampler_.draw_case(cube, *prior, rng);
  FreezeThawProcess plain(nullptr, 3);
  FreezeThawProcess learnt(prior, 3);
  std::vector<Moment> moments;
  for (const size_t done : study.stages) {
    for (size_t i = plain.size(); i < done; ++i) {
      plain.observe(study.observations[i]);
      learnt.observe(study.observations[i]);
    }
    plain.fit(kFitIterations);
    learnt.fit(kFitIterations);
    moments.push_back(judge_moment(study, done, plain, learnt));
  }
  return moments;
}

JudgeRow row_of(size_t predictor, size_t bucket,
                const std::vector<Moment>& moments) {
  Tallies sums;
  size_t studies = 0;
  for (const Moment& moment : moments) {
    const bool counts =
        bucket == kAllBucket || bucket_of(moment.observations) == bucket;
    if (!counts) continue;
    ++studies;
    sums.final_values.add(moment.predictors[predictor].final_values, 1);
    sums.all_values.add(moment.predictors[predictor].all_values, 1);
  }
  // Where everything of a kind was observed there is nothing to count.
  const auto mean = [](double sum, const Tally& tally) {
    return tally.count > 0 ? sum / tally.count : 0;
  };
  const Tally& f = sums.final_values;
  const Tally& a = sums.all_values;
  return {kPredictors[predictor],
          kBuckets[bucket],
          studies,
          mean(f.log_score, f),
          mean(a.log_score, a),
          std::sqrt(mean(f.square, f)),
          std::sqrt(mean(a.square, a)),
          mean(f.inside, f),
          mean(a.inside, a)};
}

std::vector<JudgeRow> Judge::run() const {
  std::vector<std::vector<Moment>> studies(options_.studies);
  parallel_for(
      studies.size(), [&](size_t i) { studies[i] = judge_study(i); },
      options_.threads);
  std::vector<Moment> moments;
  for (const std::vector<Moment>& study : studies) {
    moments.insert(moments.end(), study.begin(), study.end());
  }
  std::vector<JudgeRow> rows;
  for (size_t predictor = 0; predictor < kPredictorCount; ++predictor) {
    for (size_t bucket = 0; bucket <= kAllBucket; ++bucket) {
      rows.push_back(row_of(predictor, bucket, moments));
    }
  }
  return rows;
}

}  // namespace

std::vector<JudgeRow> judge(const LearntPrior& prior, const ConvLstm& network,
                            const std::vector<RecordedCube>& cubes,
                            const JudgeOptions& options) {
  DTUNE_CHECK(!cubes.empty());
  return Judge(prior, network, cubes, options).run();
}

}  // namespace dtune
