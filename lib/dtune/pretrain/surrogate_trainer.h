// Trains the network that corrects the process (conv_lstm.h) on partial
// studies by chance, as prior-fitted networks are (Mueller et al. 2022,
// arXiv 2112.10510): minibatches of fresh samples, Adam, a cosine, and the
// exponential moving average of the weights as the result.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/study_sampler.h"

namespace dtune {

// How well studies are predicted, in nats of z: what counts is the
// difference between the two.
struct LogScores {
  double network_final = 0;  // of values at the end of training
  double heavy_final = 0;    // by the process with kHeavyTails
  double network_all = 0;    // weighted as in training
  double heavy_all = 0;
};

struct SurrogateTrainProgress {
  uint64_t samples = 0;  // trained on
  uint64_t of = 0;
  double seconds = 0;
  double loss = 0;        // mean of the samples since the last report
  double heavy_loss = 0;  // of kHeavyTails on the same samples
  LogScores validation;   // of the averaged weights
};

struct SurrogateTrainOptions {
  // How long: studies, or minutes, from which a number of them is
  // reckoned by trying a few. One of them is 0.
  uint64_t samples = 0;
  double minutes = 0;
  unsigned threads = 1;
  uint64_t seed = 1;
  ConvLstmShape shape;
  size_t batch = 16;
  size_t draws = 16;       // of the sampler that are shuffled together
  double rate = 5e-3;      // of Adam; short trainings learn less with 2e-3
  double average = 0.998;  // what the moving average keeps at each step
  int reports = 12;        // in all
  std::function<void(const SurrogateTrainProgress&)> progress;
};

struct TrainedSurrogate {
  ConvLstm network;
  uint64_t samples;  // trained on: --samples of the same training
};

// The same weights for the same sampler, seed and number of samples, whatever
// the number of threads, on CPUs with the same instructions and with the same
// LibTorch. Blocks. Commands call it through Engine::train_surrogate.
TrainedSurrogate train_surrogate(const StudySampler& sampler,
                                 const std::vector<TrainingSample>& validation,
                                 const SurrogateTrainOptions& options);

LogScores log_scores(const ConvLstm& network,
                     const std::vector<TrainingSample>& samples,
                     unsigned threads);

}  // namespace dtune
