// How well the parts of the surrogate predict studies of recorded data sets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {

// Of one predictor, over studies with so many observations. Means over studies
// of means over the grid; "all": every voxel and time that was not observed,
// "final": of these, those at the end of training. Metric units.
struct JudgeRow {
  std::string predictor;
  std::string observations;  // "<5", "5-19", "20-59", "60+", "all"
  size_t studies = 0;
  double log_score_final = 0;  // nats
  double log_score_all = 0;
  double rmse_final = 0;  // of the expected metric
  double rmse_all = 0;
  double coverage_final = 0;  // share of values inside the 90% band
  double coverage_all = 0;
};

struct JudgeOptions {
  size_t studies = 100;  // tasks in turn, settings by chance
  uint64_t seed = 1;
  unsigned threads = 1;
  bool leave_out_own = true;  // the task judged from the prior
};

// Plain process and learnt process, each with a normal and with heavy tails,
// and the network over the learnt one; rows by predictor, then observations.
// Each study is looked at three times. Deterministic, whatever the number of
// threads. REQUIRES: cubes of the prior's axes, not empty.
std::vector<JudgeRow> judge(const LearntPrior& prior, const ConvLstm& network,
                            const std::vector<RecordedCube>& cubes,
                            const JudgeOptions& options);

}  // namespace dtune
