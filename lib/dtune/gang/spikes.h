// Spikes: a rank's process stands still for a moment. It sends no heartbeats
// then, so a spike is seen while it lasts, where a slow rank goes on sending.
#pragma once

#include <cstddef>
#include <deque>

#include "dtune/base/clock.h"

namespace dtune::gang {

// A round of which all but one rank are ready; that one stands still.
struct Standstill {
  size_t waiting = 0;  // ranks that are ready
  Duration usual{0};   // that they took for the round
  Duration worked{0};  // that the rank had on it before
  Duration silent{0};  // since it was last heard
};

// The last kWindow spikes of a gang's ranks. Not thread-safe.
class Spikes {
 public:
  // One has ended.
  void add(Duration length, MonoTime end);

  // What is left of one that has lasted for `silent`: the mean of what those
  // that were longer lasted beyond it; as long again, where there are none.
  Duration rest(Duration silent) const;

  // Whether waiting for the rank costs more than going on without it, in
  // seconds of ranks: the others stand idle for the rest of the spike and of
  // the rank's work; or the rank loses what it has computed, and waits from the
  // spike's end until the others have done their next round. The choice of
  // renting or buying (Karlin et al. 1994, doi 10.1007/BF01189993), with the
  // spikes before as the forecast.
  bool worth_going_on(const Standstill& standstill) const;

  // Likewise where the rank stopped when all were ready, and `waiting` others
  // cannot finish the round without it. They wait for the rest of the spike; or
  // they make new groups, train the whole round of `usual` again, and the rank
  // loses what it had computed, and waits until they have done so.
  bool worth_giving_up(size_t waiting, Duration silent, Duration usual) const;
  static constexpr Duration kRegrouping = std::chrono::milliseconds(100);

  // The share of the time since the first of them that they took. With a single
  // one it falls as time goes by.
  double share(MonoTime now) const;

  static constexpr size_t kWindow = 16;

 private:
  struct Spike {
    Duration length;
    MonoTime end;
  };
  std::deque<Spike> recent_;  // oldest first
};

}  // namespace dtune::gang
