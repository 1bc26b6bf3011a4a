// The cluster is too small for a gang: since when, and whether that was said.
#pragma once

#include <string>

#include "dtune/base/clock.h"

namespace dtune {

// Not thread-safe.
class SlotShortage {
 public:
  void end() {
    since_ = {};
    said_.clear();
  }
  // There are `usable` slots, and a trial takes `wanted`. Returns what is to be
  // said now; "": nothing new.
  std::string note(int usable, int wanted, MonoTime now);
  Duration lasts(MonoTime now) const { return now - since_; }
  // ", the last 40s of it waiting for nodes: ..."; "": there was none.
  std::string describe(MonoTime now) const;

 private:
  MonoTime since_{};
  std::string said_;
};

}  // namespace dtune
