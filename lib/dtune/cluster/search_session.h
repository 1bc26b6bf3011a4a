// How long and how much the search has gone on, before this session and in it.
#pragma once

#include <cstdint>

#include "dtune/base/clock.h"

namespace dtune {

// Not thread-safe.
class SearchSession {
 public:
  // `seconds` and `steps` of the sessions before.
  void begin(double seconds, int64_t steps, MonoTime now) {
    seconds_before_ = seconds;
    steps_before_ = steps;
    began_ = now;
  }
  // Of all sessions, up to now.
  double seconds(MonoTime now) const {
    return seconds_before_ + to_seconds(now - began_);
  }
  // Of this session.
  double own_seconds(double all) const { return all - seconds_before_; }
  int64_t own_steps(int64_t all) const { return all - steps_before_; }

 private:
  double seconds_before_ = 0;
  int64_t steps_before_ = 0;
  MonoTime began_{};
};

}  // namespace dtune
