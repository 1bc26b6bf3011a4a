// Trains the speed predictor's network on traces.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dtune/speed/speed_lstm.h"

namespace dtune {

struct SpeedTrainProgress {
  int64_t samples = 0;  // traces learnt from so far
  int64_t of = 0;
  double loss = 0;        // mean over the traces since the last report
  double validation = 0;  // over traces that are not learnt from
};

struct SpeedTrainOptions {
  int64_t samples = 24'000;  // traces
  size_t rounds = 160;       // of each
  int64_t batch = 16;        // traces a step
  int hidden = kSpeedHidden;
  double rate = 4e-3;  // largest, of Adam
  SpeedLoss loss{.tilt = 0.3};
  uint64_t seed = 1;
  // Recorded ones; a quarter of the samples are windows of them where there
  // are some. Speeds, each trace two or more.
  std::vector<std::vector<double>> recorded;
  // Called ten times; may be empty.
  std::function<void(const SpeedTrainProgress&)> progress;
};

// Adam (Kingma and Ba 2015, arXiv 1412.6980) with clipped gradients and a rate
// that falls as a cosine. One thread; the same options give the same weights.
SpeedLstm train_speed_lstm(const SpeedTrainOptions& options);

}  // namespace dtune
