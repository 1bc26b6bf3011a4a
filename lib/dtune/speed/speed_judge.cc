#include "dtune/speed/speed_judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/speed/shares.h"
#include "dtune/speed/speed_predictor.h"
#include "dtune/speed/speed_season.h"

namespace dtune {
namespace {

using Trace = std::vector<double>;

// The simplest first.
constexpr std::array kPredictors = {"even", "last", "ema", "period", "lstm"};

// The periodic rule alone, one of the network's candidates; before a period was
// seen the last speed.
class PeriodicSpeed : public SpeedPredictor {
 public:
  void observe(double samples_per_second) override {
    if (!is_speed(samples_per_second)) return;
    last_ = samples_per_second;
    season_.observe(std::log(samples_per_second));
  }
  double predict() const override {
    return season_.period() > 0 ? std::exp(season_.predict()) : last_;
  }

 private:
  SpeedSeason season_;
  double last_ = 0;
};

struct Gang {
  std::vector<Trace> speeds;  // of each rank, in each round
  size_t slowed = 1;          // the first so many follow a trace
};

struct Score {
  double log_error = 0;
  double efficiency = 0;
};
using Scores = std::array<Score, kPredictors.size()>;

void scale(Trace& trace, double factor) {
  for (double& speed : trace) speed *= factor;
}

// Undisturbed, ranks differ by up to a factor of two.
Gang make_gang(const std::function<Trace(uint64_t seed)>& slow, int index,
               const SpeedJudgeOptions& options) {
  Gang gang;
  const uint64_t seed =
      mix_seed({options.seed, static_cast<uint64_t>(index), 3});
  Rng rng(seed);
  gang.slowed = std::min<size_t>(1 + static_cast<size_t>(index % 2),
                                 static_cast<size_t>(options.ranks));
  for (size_t i = 0; i < static_cast<size_t>(options.ranks); ++i) {
    const uint64_t own = mix_seed({seed, i});
    gang.speeds.push_back(
        i < gang.slowed
            ? slow(own)
            : make_speed_trace(Slowness::constant, options.rounds, own));
    scale(gang.speeds.back(), 100 * std::exp2(rng.uniform(0, 1)));
  }
  return gang;
}

std::unique_ptr<SpeedPredictor> make_predictor(size_t which,
                                               const SpeedLstm& network) {
  const std::string name = kPredictors.at(which);
  if (name == "lstm") return make_lstm_predictor(network);
  if (name == "period") return std::make_unique<PeriodicSpeed>();
  return make_speed_predictor(name == "ema" ? PredictorKind::ema
                                            : PredictorKind::last);
}

std::vector<double> speeds_at(const Gang& gang, size_t round) {
  std::vector<double> speeds;
  for (const Trace& trace : gang.speeds) speeds.push_back(trace[round]);
  return speeds;
}

// Shares that follow the predictions of a gang's ranks as Balancer's do.
class Shares {
 public:
  explicit Shares(const SpeedJudgeOptions& options) : options_(options) {}

  const std::vector<int64_t>& update(const std::vector<double>& predicted) {
    std::vector<int64_t> next = split_batch(options_.batch, predicted, {});
    if (worth_changing(shares_, next, predicted, options_.gain)) {
      shares_ = std::move(next);
    }
    return shares_;
  }

 private:
  const SpeedJudgeOptions& options_;
  std::vector<int64_t> shares_;
};

Score play(const Gang& gang, size_t which, const SpeedLstm& network,
           const SpeedJudgeOptions& options) {
  std::vector<std::unique_ptr<SpeedPredictor>> predictors;
  for (size_t i = 0; i < gang.speeds.size(); ++i) {
    predictors.push_back(make_predictor(which, network));
  }
  const bool even = which == 0;
  Shares shares(options);
  Score score;
  double spent = 0;
  double ideal = 0;
  const size_t rounds = gang.speeds[0].size();
  for (size_t round = 0; round < rounds; ++round) {
    const std::vector<double> speeds = speeds_at(gang, round);
    std::vector<double> predicted(speeds.size());
    for (size_t i = 0; i < speeds.size(); ++i) {
      if (!even) predicted[i] = predictors[i]->predict();
      if (!even && round > 0 && i < gang.slowed) {
        score.log_error += std::abs(std::log(predicted[i] / speeds[i]));
      }
      predictors[i]->observe(speeds[i]);
    }
    spent += round_seconds(shares.update(predicted), speeds);
    ideal += round_seconds(split_batch(options.batch, speeds, {}), speeds);
  }
  score.log_error /= static_cast<double>((rounds - 1) * gang.slowed);
  score.efficiency = ideal / spent;
  return score;
}

Scores judge_gangs(std::span<const Gang> gangs, const SpeedLstm& network,
                   const SpeedJudgeOptions& options) {
  Scores scores;
  const auto count = static_cast<double>(gangs.size());
  for (const Gang& gang : gangs) {
    for (size_t which = 0; which < scores.size(); ++which) {
      const Score one = play(gang, which, network, options);
      scores[which].log_error += one.log_error / count;
      scores[which].efficiency += one.efficiency / count;
    }
  }
  return scores;
}

std::vector<Gang> gangs_of(Slowness kind, const SpeedJudgeOptions& options) {
  std::vector<Gang> gangs;
  gangs.reserve(static_cast<size_t>(options.gangs));
  for (int i = 0; i < options.gangs; ++i) {
    gangs.push_back(make_gang(
        [&](uint64_t seed) {
          return make_speed_trace(kind, options.rounds, seed);
        },
        i, options));
  }
  return gangs;
}

// A gang for each trace, as long as it is; the trace's median becomes 1.
std::vector<Gang> gangs_of(std::span<const Trace> recorded,
                           const SpeedJudgeOptions& options) {
  std::vector<Gang> gangs;
  for (const Trace& trace : recorded) {
    Trace sorted = trace;
    std::sort(sorted.begin(), sorted.end());
    SpeedJudgeOptions own = options;
    own.rounds = trace.size();
    const auto slow = [&](uint64_t) {
      Trace copy = trace;
      scale(copy, 1 / sorted[sorted.size() / 2]);
      return copy;
    };
    gangs.push_back(make_gang(slow, 0, own));
  }
  return gangs;
}

}  // namespace

std::vector<SpeedJudgement> judge_speeds(const SpeedLstm& network,
                                         std::span<const Trace> recorded,
                                         const SpeedJudgeOptions& options) {
  DTUNE_CHECK(options.gangs >= 1 && options.ranks >= 1 && options.rounds >= 2);
  std::vector<SpeedJudgement> rows;
  Scores all;
  const double blocks = double(kSlownesses.size()) + (recorded.empty() ? 0 : 1);
  const auto add = [&](const std::string& name, const Scores& scores) {
    for (size_t i = 0; i < scores.size(); ++i) {
      rows.push_back(
          {name, kPredictors.at(i), scores[i].log_error, scores[i].efficiency});
      all[i].log_error += scores[i].log_error / blocks;
      all[i].efficiency += scores[i].efficiency / blocks;
    }
  };
  for (const Slowness kind : kSlownesses) {
    add(to_string(kind),
        judge_gangs(gangs_of(kind, options), network, options));
  }
  if (!recorded.empty()) {
    add("recorded", judge_gangs(gangs_of(recorded, options), network, options));
  }
  add("all", Scores(all));
  return rows;
}

std::string best_predictor(std::span<const SpeedJudgement> rows) {
  std::string best = kPredictors[0];
  double efficiency = 0;
  for (const SpeedJudgement& row : rows) {
    if (row.slowness != "all" || row.efficiency < efficiency + 1e-4) continue;
    best = row.predictor;
    efficiency = row.efficiency;
  }
  return best;
}

}  // namespace dtune
