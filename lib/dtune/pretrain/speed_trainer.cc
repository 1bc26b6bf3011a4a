#include "dtune/pretrain/speed_trainer.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/pretrain/adam.h"
#include "dtune/pretrain/speed_lstm_graph.h"
#include "dtune/speed/speed_traces.h"
#include "dtune/train/torch_settings.h"

namespace dtune {
namespace {

constexpr uint64_t kTraining = 1;  // parts of seeds
constexpr uint64_t kValidation = 2;
constexpr uint64_t kValidationTraces = 120;
constexpr size_t kValidationRounds = 300;

std::vector<double> sample_trace(const SpeedTrainOptions& options,
                                 int64_t index) {
  const auto number = static_cast<uint64_t>(index);
  const uint64_t seed = mix_seed({options.seed, kTraining, number});
  if (options.recorded.empty() || index % 4 != 0) {
    const Slowness kind = kSlownesses[number % kSlownesses.size()];
    return make_speed_trace(kind, options.rounds, seed);
  }
  Rng rng(seed);
  const auto& whole = options.recorded[rng.below(options.recorded.size())];
  const size_t length = std::min(options.rounds, whole.size());
  const auto from =
      static_cast<std::ptrdiff_t>(rng.below(whole.size() - length + 1));
  return {whole.begin() + from,
          whole.begin() + from + static_cast<std::ptrdiff_t>(length)};
}

std::vector<std::vector<double>> validation_traces(uint64_t seed) {
  std::vector<std::vector<double>> traces;
  for (uint64_t i = 0; i < kValidationTraces; ++i) {
    traces.push_back(make_speed_trace(kSlownesses[i % kSlownesses.size()],
                                      kValidationRounds,
                                      mix_seed({seed, kValidation, i})));
  }
  return traces;
}

constexpr double kClip = 0.5;
constexpr double kWarmUp = 0.025;  // share of the steps

// The gradient of the batch's mean loss, which is returned.
double gradient_of(const SpeedTrainOptions& options,
                   std::span<float> parameters,
                   std::span<const std::vector<SpeedStep>> traces,
                   std::vector<float>& gradient) {
  const at::Tensor leaf =
      at::from_blob(parameters.data(),
                    {static_cast<int64_t>(parameters.size())}, at::kFloat)
          .clone()
          .requires_grad_();
  const at::Tensor loss = speed_loss(
      options.hidden, leaf, speed_batch(traces, at::kFloat), options.loss);
  loss.backward();
  const at::Tensor result = leaf.grad().contiguous();
  const float* first = result.data_ptr<float>();
  gradient.assign(first, first + result.numel());
  return loss.item<double>();
}

// Tells how far the training is; ten times.
class Reporter {
 public:
  explicit Reporter(const SpeedTrainOptions& options) : options_(options) {
    report_.of = options.samples;
    if (!options.progress) return;
    for (const auto& trace : validation_traces(options.seed)) {
      validation_.push_back(speed_steps(trace));
    }
  }

  void add(const SpeedLstm& network, double loss, int64_t samples) {
    const auto tenth = [&] { return 10 * report_.samples / report_.of; };
    const int64_t before = tenth();
    report_.samples += samples;
    sum_ += loss;
    since_ += samples;
    if (options_.progress && tenth() != before) tell(network);
  }

 private:
  void tell(const SpeedLstm& network) {
    report_.loss = sum_ / static_cast<double>(since_);
    report_.validation = 0;
    for (const auto& steps : validation_) {
      report_.validation += mean_loss(network, steps, options_.loss) /
                            static_cast<double>(validation_.size());
    }
    options_.progress(report_);
    sum_ = 0;
    since_ = 0;
  }

  const SpeedTrainOptions& options_;
  std::vector<std::vector<SpeedStep>> validation_;
  SpeedTrainProgress report_;
  double sum_ = 0;     // of losses since the last report
  int64_t since_ = 0;  // traces
};

}  // namespace

double mean_loss(const SpeedLstm& network, std::span<const SpeedStep> steps,
                 const SpeedLoss& loss) {
  DTUNE_CHECK(!steps.empty());
  SpeedLstmState state = network.start();
  double sum = 0;
  for (const SpeedStep& step : steps) {
    const double error = network.step(step.moment, state) - step.next;
    sum += std::hypot(error, kSpeedSmooth) - kSpeedSmooth + loss.tilt * error;
  }
  return sum / static_cast<double>(steps.size());
}

SpeedLstm train_speed_lstm(const SpeedTrainOptions& options) {
  DTUNE_CHECK(options.samples >= 1 && options.batch >= 1);
  DTUNE_CHECK(options.rounds >= 2);
  prepare_process();
  const SingleThread exactly;
  SpeedLstm network(options.hidden, options.seed);
  Reporter reporter(options);
  std::vector<float> weights(network.parameters().begin(),
                             network.parameters().end());
  const int64_t steps = (options.samples + options.batch - 1) / options.batch;
  Adam adam(weights.size(), {.rate = options.rate,
                             .warm_up = kWarmUp * static_cast<double>(steps),
                             .steps = steps,
                             .clip = kClip});
  std::vector<float> gradient;
  for (int64_t done = 0; done < options.samples;) {
    const int64_t batch = std::min(options.batch, options.samples - done);
    std::vector<std::vector<SpeedStep>> traces;
    for (int64_t i = 0; i < batch; ++i) {
      traces.push_back(speed_steps(sample_trace(options, done + i)));
    }
    const double loss = gradient_of(options, weights, traces, gradient);
    adam.step(weights, gradient);
    std::ranges::copy(weights, network.parameters().begin());
    done += batch;
    reporter.add(network, loss * static_cast<double>(batch), batch);
  }
  return network;
}

}  // namespace dtune
