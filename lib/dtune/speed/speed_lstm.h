// The network of PredictorKind::lstm: one LSTM layer (Hochreiter and
// Schmidhuber 1997, doi 10.1162/neco.1997.9.8.1735, with the forget gates of
// Gers et al. 2000) over what SpeedHistory tells, which mixes simple
// predictions and corrects the mixture:
//
//   a = W [x; h; 1];  i, f, o = sigmoid(a_i, a_f, a_o);  g = tanh(a_g)
//   c <- f c + i g;   h <- o tanh(c)
//   [l; r] = V [h; 1]
//   log v_next = level + sum_k softmax(l)_k candidate_k + spread tanh(r)
//
// so a prediction is never further than `spread` outside of what the
// candidates (last, averages, levels, a straight line) say, whatever the
// weights. Chen et al. 2020 (SoCC, "Semi-dynamic load balancing") have a NARX
// network in its place, which sees the CPU's and memory's use as well; we have
// only the speeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtune/base/safetensors.h"
#include "dtune/speed/speed_history.h"
#include "dtune/speed/speed_predictor.h"

namespace dtune {

inline constexpr int kSpeedHidden = 24;
// [l; r]
inline constexpr size_t kSpeedOutputs = kSpeedCandidates + 1;

struct SpeedLstmState {
  std::vector<double> hidden;
  std::vector<double> cell;
};

// A moment of a trace and the log speed that came next.
struct SpeedStep {
  SpeedMoment moment;
  double next = 0;
};
// The steps of a trace, in order. Speeds must be speeds (is_speed).
std::vector<SpeedStep> speed_steps(std::span<const double> speeds);

// Copyable. const functions may be called from several threads.
class SpeedLstm {
 public:
  // Weights drawn from the seed. REQUIRES: 1 <= hidden <= 256.
  SpeedLstm(int hidden, uint64_t seed);
  // Throws Error(data) naming the file.
  static SpeedLstm load(const std::filesystem::path& path);
  static SpeedLstm from_bytes(std::span<const std::byte> bytes,
                              const std::string& name);
  void save(const std::filesystem::path& path,
            const std::string& provenance) const;

  int hidden() const { return static_cast<int>(hidden_); }
  // W by columns, [x; h; 1] x 4 hidden; then V likewise.
  std::span<double> parameters() { return parameters_; }
  std::span<const double> parameters() const { return parameters_; }

  SpeedLstmState start() const;
  // Some microseconds. Returns the predicted logarithm of the next speed.
  double step(const SpeedMoment& moment, SpeedLstmState& state) const;

 private:
  static SpeedLstm read(const SafetensorsFile& file);
  size_t columns() const { return kSpeedInputs + hidden_ + 1; }
  size_t gate_count() const { return 4 * hidden_ * columns(); }

  size_t hidden_;
  std::vector<double> parameters_;
};

// The weights that are compiled in. Thread-safe; lives as long as the program.
const SpeedLstm& shipped_speed_lstm();

// PredictorKind::lstm with other weights, which must outlive it.
std::unique_ptr<SpeedPredictor> make_lstm_predictor(const SpeedLstm& network);

}  // namespace dtune
