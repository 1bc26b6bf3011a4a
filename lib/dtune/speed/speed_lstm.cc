#include "dtune/speed/speed_lstm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/speed/weights/embedded.h"

namespace dtune {
namespace {

// Of exp() of a prediction: finite and no subnormal.
constexpr double kLargestLog = 700;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The prediction relative to the moment's level; `head`: V by columns, [h; 1].
double read_out(const SpeedMoment& moment, std::span<const double> hidden,
                std::span<const double> head) {
  std::array<double, kSpeedOutputs> out{};
  const double* column = head.data();
  for (const double h : hidden) {
    for (size_t k = 0; k < kSpeedOutputs; ++k) out[k] += column[k] * h;
    column += kSpeedOutputs;
  }
  for (size_t k = 0; k < kSpeedOutputs; ++k) out[k] += column[k];
  const double largest =
      *std::max_element(out.begin(), out.begin() + kSpeedCandidates);
  double sum = 0;
  std::array<double, kSpeedCandidates> shares{};  // softmax
  for (size_t k = 0; k < kSpeedCandidates; ++k) {
    sum += shares[k] = std::exp(out[k] - largest);
  }
  double mixed = 0;
  for (size_t k = 0; k < kSpeedCandidates; ++k) {
    mixed += shares[k] / sum * moment.candidates[k];
  }
  return mixed + moment.spread * std::tanh(out[kSpeedCandidates]);
}

class LstmSpeed : public SpeedPredictor {
 public:
  explicit LstmSpeed(const SpeedLstm& network)
      : network_(network), state_(network.start()) {}

  void observe(double samples_per_second) override {
    if (!is_speed(samples_per_second)) return;
    history_.observe(std::log(samples_per_second));
    predicted_ = network_.step(history_.moment(), state_);
  }

  double predict() const override {
    if (history_.empty()) return 0;
    return std::exp(std::clamp(predicted_, -kLargestLog, kLargestLog));
  }

 private:
  const SpeedLstm& network_;
  SpeedHistory history_;
  SpeedLstmState state_;
  double predicted_ = 0;
};

}  // namespace

std::vector<SpeedStep> speed_steps(std::span<const double> speeds) {
  std::vector<SpeedStep> steps;
  SpeedHistory history;
  for (size_t i = 0; i + 1 < speeds.size(); ++i) {
    history.observe(std::log(speeds[i]));
    steps.push_back({history.moment(), std::log(speeds[i + 1])});
  }
  return steps;
}

SpeedLstm::SpeedLstm(int hidden, uint64_t seed)
    : hidden_(static_cast<size_t>(hidden)) {
  DTUNE_CHECK(hidden >= 1 && hidden <= 256);
  parameters_.resize(gate_count() + (hidden_ + 1) * kSpeedOutputs);
  Rng rng(mix_seed({seed, hash_text("speed lstm")}));
  const double scale = 1 / std::sqrt(static_cast<double>(columns()));
  const size_t biases = 4 * hidden_ * (columns() - 1);
  for (size_t i = 0; i < biases; ++i) parameters_[i] = scale * rng.normal();
  // Gates i, f, o, g; a forget gate that is open at first remembers.
  for (size_t k = 0; k < hidden_; ++k) parameters_[biases + hidden_ + k] = 1;
  const size_t end = parameters_.size() - kSpeedOutputs;
  for (size_t i = gate_count(); i < end; ++i) {
    parameters_[i] = 0.1 * rng.normal();
  }
}

SpeedLstmState SpeedLstm::start() const {
  return {std::vector<double>(hidden_), std::vector<double>(hidden_)};
}

double SpeedLstm::step(const SpeedMoment& moment, SpeedLstmState& state) const {
  thread_local std::vector<double> sums;  // of the gates
  const size_t gates = 4 * hidden_;
  const double* column = parameters_.data();
  sums.assign(gates, 0);
  const auto add_column = [&](double x) {
    for (size_t k = 0; k < gates; ++k) sums[k] += column[k] * x;
    column += gates;
  };
  for (const double x : moment.inputs) add_column(x);
  for (const double h : state.hidden) add_column(h);
  add_column(1);
  for (size_t k = 0; k < hidden_; ++k) {
    const double in = sigmoid(sums[k]);
    const double forget = sigmoid(sums[hidden_ + k]);
    const double out = sigmoid(sums[2 * hidden_ + k]);
    const double fresh = std::tanh(sums[3 * hidden_ + k]);
    state.cell[k] = forget * state.cell[k] + in * fresh;
    state.hidden[k] = out * std::tanh(state.cell[k]);
  }
  const auto head = std::span(parameters_).subspan(gate_count());
  return moment.level + read_out(moment, state.hidden, head);
}

const SpeedLstm& shipped_speed_lstm() {
  static const SpeedLstm network = SpeedLstm::from_bytes(
      embedded_speed_weights(), "the shipped speed predictor");
  return network;
}

std::unique_ptr<SpeedPredictor> make_lstm_predictor(const SpeedLstm& network) {
  return std::make_unique<LstmSpeed>(network);
}

}  // namespace dtune
