// For tests: sets the clock that code without one of its own reads.
#pragma once

#include "dtune/base/clock.h"

namespace dtune {

// While it lives, system_clock() is `clock`. One at a time; what has asked for
// system_clock() before keeps the machine's.
class ClockOverride {
 public:
  explicit ClockOverride(const Clock& clock);
  ~ClockOverride();
  ClockOverride(const ClockOverride&) = delete;
  ClockOverride& operator=(const ClockOverride&) = delete;
};

}  // namespace dtune
