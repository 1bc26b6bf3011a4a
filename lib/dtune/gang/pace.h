// How long rounds take, and from when on a member counts as late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dtune/base/clock.h"

namespace dtune::gang {

// Durations from handing out work to `ready`, of the last kWindow that came.
// Late ones count as well, when they come: where all have become slower, or one
// for good, the deadline moves with them. Not thread-safe.
class Pace {
 public:
  void add(Duration handed_to_ready);
  void end_round() { ++rounds_; }

  // Rounds enough to judge by.
  bool known() const { return rounds_ >= kLeastRounds; }

  // Of the recent durations; 0 where there are none.
  Duration quantile(double q) const;

  // From handing out: kFactor times the upper quartile, or times what the
  // slowest member is expected to need, if that is longer; a deadline for
  // spikes, not for what is known (Chen et al. 2016, arXiv 1604.00981, drop
  // backup workers by count; a deadline drops only where something is slow).
  // Not a higher percentile: where one of four ranks is late in every fifth
  // round, the 95th is that of late ones. Empty before kLeastRounds.
  std::optional<Duration> deadline(Duration expected) const;

  static constexpr size_t kWindow = 256;
  static constexpr int64_t kLeastRounds = 8;
  static constexpr double kFactor = 1.5;
  static constexpr Duration kFloor = std::chrono::milliseconds(25);

 private:
  std::vector<Duration> recent_;  // a ring
  size_t next_ = 0;
  int64_t rounds_ = 0;
};

}  // namespace dtune::gang
