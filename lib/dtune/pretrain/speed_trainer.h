// Trains the speed predictor's network on traces.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dtune/speed/speed_lstm.h"

namespace dtune {

// What training minimises in each step, e being predicted - next:
//   sqrt(e^2 + s^2) - s + tilt e,   s = kSpeedSmooth
// i.e. nearly |e|; tilt > 0 makes predicting too much dearer than too little,
// because all wait for a rank that got too much.
inline constexpr double kSpeedSmooth = 0.02;
struct SpeedLoss {
  double tilt = 0;
};
// The mean over the steps of a trace.
double mean_loss(const SpeedLstm& network, std::span<const SpeedStep> steps,
                 const SpeedLoss& loss);

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

// Adam with clipped gradients and a rate that falls as a cosine (adam.h);
// back-propagation through time over whole traces. One thread; the same options
// give the same weights with the same LibTorch. Commands call it through
// Engine::train_speed_predictor.
SpeedLstm train_speed_lstm(const SpeedTrainOptions& options);

}  // namespace dtune
