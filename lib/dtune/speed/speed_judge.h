// How well predictors of speed do, and what their errors cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtune/speed/speed_lstm.h"
#include "dtune/speed/speed_traces.h"

namespace dtune {

struct SpeedJudgeOptions {
  int gangs = 40;       // simulated a kind of slowness
  size_t rounds = 400;  // of each
  int ranks = 4;        // one of them follows such a trace, in every second
                        // gang two; the others are constant
  int64_t batch = 1024;
  double gain = 0.05;  // shares change only for that (worth_changing)
  uint64_t seed = 1000;
};

// One way of predicting, in gangs that suffer from one kind of slowness.
struct SpeedJudgement {
  std::string slowness;  // as to_string(), or "recorded"
  // "even" (shares are never changed), "last", "ema", "period" (SpeedSeason
  // alone), "lstm".
  std::string predictor;
  // Mean of |log predicted - log true| over the ranks that are slowed; 0 for
  // "even".
  double log_error = 0;
  // Mean over gangs of: time of all rounds if the next speeds were known, over
  // the time with these predictions (LB-BSP, split_batch); 1 is perfect.
  double efficiency = 0;
};

// Rows by kind of slowness, then predictor; the last block, "all", is the mean
// over kinds. All predictors see the same gangs. `recorded`: traces to judge on
// as a kind of their own.
std::vector<SpeedJudgement> judge_speeds(
    const SpeedLstm& network, std::span<const std::vector<double>> recorded,
    const SpeedJudgeOptions& options);

// The predictor with the best efficiency of all; among equals (to 1e-4) the
// simplest. REQUIRES: rows of judge_speeds.
std::string best_predictor(std::span<const SpeedJudgement> rows);

}  // namespace dtune
