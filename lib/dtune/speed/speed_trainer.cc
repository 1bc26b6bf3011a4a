#include "dtune/speed/speed_trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/speed/speed_traces.h"

namespace dtune {
namespace {

constexpr uint64_t kTraining = 1;  // parts of seeds
constexpr uint64_t kValidation = 2;
constexpr uint64_t kValidationTraces = 120;
constexpr size_t kValidationRounds = 300;

class Adam {
 public:
  explicit Adam(size_t parameters) : mean_(parameters), square_(parameters) {}

  void step(std::span<double> parameters, std::span<const double> gradient,
            double rate) {
    double sum = 0;
    for (const double g : gradient) sum += g * g;
    const double norm = std::sqrt(sum);
    if (!std::isfinite(norm)) return;
    const double factor = norm > kClip ? kClip / norm : 1;
    ++steps_;
    const double first = 1 - std::pow(kMean, steps_);
    const double second = 1 - std::pow(kSquare, steps_);
    for (size_t i = 0; i < mean_.size(); ++i) {
      const double g = factor * gradient[i];
      mean_[i] += (1 - kMean) * (g - mean_[i]);
      square_[i] += (1 - kSquare) * (g * g - square_[i]);
      parameters[i] -= rate * (mean_[i] / first) /
                       (std::sqrt(square_[i] / second) + kEpsilon);
    }
  }

 private:
  static constexpr double kClip = 0.5;
  static constexpr double kMean = 0.9;
  static constexpr double kSquare = 0.999;
  static constexpr double kEpsilon = 1e-8;

  int steps_ = 0;
  std::vector<double> mean_;
  std::vector<double> square_;
};

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

double falling_rate(const SpeedTrainOptions& options, double progress) {
  const double warm = std::min(1.0, 40 * progress + 0.02);
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options.rate * warm * (0.01 + 0.99 * fall);
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
      report_.validation += network.loss(steps, options_.loss) /
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

SpeedLstm train_speed_lstm(const SpeedTrainOptions& options) {
  DTUNE_CHECK(options.samples >= 1 && options.batch >= 1);
  DTUNE_CHECK(options.rounds >= 2);
  SpeedLstm network(options.hidden, options.seed);
  Reporter reporter(options);
  Adam adam(network.parameters().size());
  std::vector<double> gradient(network.parameters().size());
  for (int64_t done = 0; done < options.samples;) {
    const int64_t batch = std::min(options.batch, options.samples - done);
    std::fill(gradient.begin(), gradient.end(), 0);
    double sum = 0;
    for (int64_t i = 0; i < batch; ++i) {
      sum += network.add_gradient(speed_steps(sample_trace(options, done + i)),
                                  options.loss, 1 / static_cast<double>(batch),
                                  gradient);
    }
    adam.step(network.parameters(), gradient,
              falling_rate(options, static_cast<double>(done) /
                                        static_cast<double>(options.samples)));
    done += batch;
    reporter.add(network, sum, batch);
  }
  network.round_parameters();
  return network;
}

}  // namespace dtune
