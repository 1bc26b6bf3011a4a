#include "dtune/base/turn_clock.h"

#include <algorithm>

namespace dtune {

void TurnClock::turn() {
  const MonoTime t = clock_.now();
  uncounted_ += std::max(Duration{0}, t - turn_ - longest_);
  turn_ = t;
}

void TurnClock::set_longest(Duration longest) {
  turn();
  longest_ = longest;
}

MonoTime TurnClock::now() const {
  return std::min(clock_.now(), turn_ + longest_) - uncounted_;
}

}  // namespace dtune
