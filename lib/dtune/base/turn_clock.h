// Time as a loop sees it: where its thread is held up (a suspended process, a
// loaded machine), what passes is counted up to a limit only. A peer's silence
// measured by it is the peer's own: what it has said meanwhile may be unread.
#pragma once

#include "dtune/base/clock.h"

namespace dtune {

// wall_ms() is that of the clock below. Not thread-safe.
class TurnClock final : public Clock {
 public:
  // A turn of the loop, from one call of turn() to the next, counts as
  // `longest` at most. `clock` outlives this.
  explicit TurnClock(Duration longest, const Clock& clock = system_clock())
      : clock_(clock), longest_(longest), turn_(clock.now()) {}

  // At the start of each turn of the loop.
  void turn();
  // From the turn on that begins with this call.
  void set_longest(Duration longest);
  MonoTime now() const override;
  int64_t wall_ms() const override { return clock_.wall_ms(); }

 private:
  const Clock& clock_;
  Duration longest_;
  MonoTime turn_;          // when the last one began, by clock_
  Duration uncounted_{0};  // until then
};

}  // namespace dtune
