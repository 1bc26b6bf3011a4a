#include "dtune/speed/speed_lstm.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/speed/speed_lstm_tape.h"
#include "dtune/speed/weights/embedded.h"

namespace dtune {
namespace {

// Of exp() of a prediction: finite and no subnormal.
constexpr double kLargestLog = 700;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

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

void SpeedLstm::round_parameters() {
  for (double& value : parameters_) {
    value = static_cast<double>(static_cast<float>(value));
  }
}

SpeedLstmState SpeedLstm::start() const {
  return {std::vector<double>(hidden_), std::vector<double>(hidden_)};
}

void SpeedLstm::run(const SpeedMoment& moment, SpeedLstmState& state,
                    Tape& tape) const {
  const size_t gates = 4 * hidden_;
  const double* column = parameters_.data();
  tape.cell_before.assign(state.cell.begin(), state.cell.end());
  tape.hidden_before.assign(state.hidden.begin(), state.hidden.end());
  tape.gates.assign(gates, 0);
  const auto add_column = [&](double x) {
    for (size_t k = 0; k < gates; ++k) tape.gates[k] += column[k] * x;
    column += gates;
  };
  for (const double x : moment.inputs) add_column(x);
  for (const double h : tape.hidden_before) add_column(h);
  add_column(1);
  for (size_t k = 0; k < 3 * hidden_; ++k) {
    tape.gates[k] = sigmoid(tape.gates[k]);
  }
  tape.squashed.resize(hidden_);
  for (size_t k = 0; k < hidden_; ++k) {
    double& g = tape.gates[3 * hidden_ + k];
    g = std::tanh(g);
    state.cell[k] = tape.gates[hidden_ + k] * state.cell[k] + tape.gates[k] * g;
    tape.squashed[k] = std::tanh(state.cell[k]);
    state.hidden[k] = tape.gates[2 * hidden_ + k] * tape.squashed[k];
  }
  tape.hidden.assign(state.hidden.begin(), state.hidden.end());
  tape.read_out(moment, std::span(parameters_).subspan(gate_count()));
}

double SpeedLstm::step(const SpeedMoment& moment, SpeedLstmState& state) const {
  thread_local Tape tape;
  run(moment, state, tape);
  return moment.level + tape.offset;
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
