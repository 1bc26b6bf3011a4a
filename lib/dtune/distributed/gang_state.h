// The state of a training: in memory, to come back to, and on its way to a
// member that lags.
#pragma once

#include <cstdint>
#include <vector>

#include "dtune/comm/collective.h"
#include "dtune/gang/messages.h"
#include "dtune/train/checkpoint.h"

namespace dtune {

// What a member of a gang has besides tensors.
struct MemberProgress {
  int step = 1;          // that is being trained
  int64_t position = 0;  // samples seen
  int64_t updates = 0;
  LossTotals totals;  // of the step so far
};

// Of one's own, to come back to when a step is broken off. On the CPU.
class StateCopy {
 public:
  void take(const TrainingState& state);
  // Tensors in place, position and updates. REQUIRES: take() of an equal one.
  void put(TrainingState& state) const;
  bool empty() const { return tensors_.empty(); }
  uint64_t bytes() const;

 private:
  std::vector<at::Tensor> tensors_;
  int64_t position_ = 0;
  int64_t updates_ = 0;
};

// One message for the progress, one for each tensor. Throw as Collective's
// operations.
void send_state(Collective& group, int to_rank, const TrainingState& state,
                const MemberProgress& progress, Duration patience);
// Tensors in place, position and updates too. Throws Error(comm) where the
// other's state is of another form; what was received until then stays.
MemberProgress receive_state(Collective& group, int from_rank,
                             TrainingState& state, Duration patience);

// Plain values between processes of one build.
template <typename T>
std::span<const std::byte> bytes_of_value(const T& value) {
  return std::as_bytes(std::span<const T>(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of_value(T& value) {
  return std::as_writable_bytes(std::span<T>(&value, 1));
}

}  // namespace dtune
