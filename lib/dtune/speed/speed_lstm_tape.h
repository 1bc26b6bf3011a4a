// Internal to the speed predictor's network: what one step leaves behind for
// its gradient.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "dtune/speed/speed_lstm.h"

namespace dtune {

inline constexpr size_t kSpeedOutputs = kSpeedCandidates + 1;

struct SpeedLstm::Tape {
  std::vector<double> cell_before;
  std::vector<double> hidden_before;
  std::vector<double> gates;     // i, f, o, g after their squashing
  std::vector<double> squashed;  // tanh of the cell
  std::vector<double> hidden;
  std::array<double, kSpeedCandidates> shares{};  // softmax
  double correction = 0;                          // tanh
  double mixed = 0;                               // of the candidates
  double offset = 0;                              // predicted log speed - level

  // Fills in what comes after `hidden`; `head`: V by columns, [h; 1].
  void read_out(const SpeedMoment& moment, std::span<const double> head);
  // Back through the gates: from the loss's gradient by hidden and cell (which
  // becomes that by the cell before) to `delta`, that by the gates' sums a.
  void gate_gradient(std::span<const double> to_hidden,
                     std::span<double> to_cell, std::span<double> delta) const;
};

}  // namespace dtune
