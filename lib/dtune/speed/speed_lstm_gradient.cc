// The network's loss and its gradient by back-propagation through time.

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/speed/speed_lstm_tape.h"

namespace dtune {
namespace {

constexpr double kSmooth = 0.02;

double value_of(const SpeedLoss& loss, double error) {
  return std::hypot(error, kSmooth) - kSmooth + loss.tilt * error;
}

double slope_of(const SpeedLoss& loss, double error) {
  return error / std::hypot(error, kSmooth) + loss.tilt;
}

// In four sums, which the compiler can compute side by side. REQUIRES: a
// multiple of four numbers.
double dot(const double* a, std::span<const double> b) {
  std::array<double, 4> sums{};
  for (size_t i = 0; i < b.size(); i += 4) {
    for (size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

void SpeedLstm::Tape::read_out(const SpeedMoment& moment,
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
  for (size_t k = 0; k < kSpeedCandidates; ++k) {
    sum += shares[k] = std::exp(out[k] - largest);
  }
  mixed = 0;
  for (size_t k = 0; k < kSpeedCandidates; ++k) {
    shares[k] /= sum;
    mixed += shares[k] * moment.candidates[k];
  }
  correction = std::tanh(out[kSpeedCandidates]);
  offset = mixed + moment.spread * correction;
}

// `slope`: of the loss by the prediction.
void SpeedLstm::head_gradient(const SpeedStep& step, const Tape& tape,
                              double slope, std::span<double> gradient,
                              std::span<double> to_hidden) const {
  std::array<double, kSpeedOutputs> delta{};
  for (size_t k = 0; k < kSpeedCandidates; ++k) {
    delta[k] =
        slope * tape.shares[k] * (step.moment.candidates[k] - tape.mixed);
  }
  delta[kSpeedCandidates] =
      slope * step.moment.spread * (1 - tape.correction * tape.correction);
  const double* weights = &parameters_[gate_count()];
  double* into = &gradient[gate_count()];
  for (size_t h = 0; h < hidden_; ++h) {
    for (size_t k = 0; k < kSpeedOutputs; ++k) {
      into[k] += delta[k] * tape.hidden[h];
      to_hidden[h] += delta[k] * weights[k];
    }
    weights += kSpeedOutputs;
    into += kSpeedOutputs;
  }
  for (size_t k = 0; k < kSpeedOutputs; ++k) into[k] += delta[k];
}

double SpeedLstm::loss(std::span<const SpeedStep> steps,
                       const SpeedLoss& loss) const {
  DTUNE_CHECK(!steps.empty());
  SpeedLstmState state = start();
  double sum = 0;
  for (const SpeedStep& one : steps) {
    sum += value_of(loss, step(one.moment, state) - one.next);
  }
  return sum / static_cast<double>(steps.size());
}

void SpeedLstm::Tape::gate_gradient(std::span<const double> to_hidden,
                                    std::span<double> to_cell,
                                    std::span<double> delta) const {
  const size_t n = hidden.size();
  for (size_t k = 0; k < n; ++k) {
    const double in = gates[k];
    const double forget = gates[n + k];
    const double out = gates[2 * n + k];
    const double fresh = gates[3 * n + k];
    const double to_c =
        to_cell[k] + to_hidden[k] * out * (1 - squashed[k] * squashed[k]);
    delta[k] = to_c * fresh * in * (1 - in);
    delta[n + k] = to_c * cell_before[k] * forget * (1 - forget);
    delta[2 * n + k] = to_hidden[k] * squashed[k] * out * (1 - out);
    delta[3 * n + k] = to_c * in * (1 - fresh * fresh);
    to_cell[k] = to_c * forget;
  }
}

double SpeedLstm::add_gradient(std::span<const SpeedStep> steps,
                               const SpeedLoss& loss, double weight,
                               std::span<double> gradient) const {
  DTUNE_CHECK(!steps.empty() && gradient.size() == parameters_.size());
  const size_t gates = 4 * hidden_;
  const double each = weight / static_cast<double>(steps.size());
  std::vector<Tape> tapes(steps.size());
  SpeedLstmState state = start();
  double sum = 0;
  for (size_t t = 0; t < steps.size(); ++t) {
    run(steps[t].moment, state, tapes[t]);
    sum +=
        value_of(loss, steps[t].moment.level + tapes[t].offset - steps[t].next);
  }
  std::vector<double> to_hidden(hidden_);
  std::vector<double> to_cell(hidden_);
  std::vector<double> delta(gates);
  for (size_t t = steps.size(); t-- > 0;) {
    const Tape& tape = tapes[t];
    const double error = steps[t].moment.level + tape.offset - steps[t].next;
    head_gradient(steps[t], tape, each * slope_of(loss, error), gradient,
                  to_hidden);
    tape.gate_gradient(to_hidden, to_cell, delta);
    double* into = gradient.data();
    const auto add_column = [&](double x) {
      for (size_t k = 0; k < gates; ++k) into[k] += delta[k] * x;
      into += gates;
    };
    for (const double x : steps[t].moment.inputs) add_column(x);
    for (const double h : tape.hidden_before) add_column(h);
    add_column(1);
    const double* column = &parameters_[gates * kSpeedInputs];
    for (size_t h = 0; h < hidden_; ++h, column += gates) {
      to_hidden[h] = dot(column, delta);
    }
  }
  return sum / static_cast<double>(steps.size());
}

}  // namespace dtune
