// Whether the kernel has just killed a process because memory had run out.
#pragma once

#include <cstdint>

#include "dtune/base/clock.h"

namespace dtune {

// Counts the kernel's kills in the control group of this process, which its
// children share (version 1 or 2), or on the whole machine where the group does
// not say. A kill of long ago explains none of today, so that the count is
// taken anew from time to time. Not thread-safe.
class OutOfMemoryKills {
 public:
  // Counts from now on.
  OutOfMemoryKills();

  // To be called at least every few seconds while a child lives.
  void look(MonoTime now);
  // There was one since the last look but one.
  bool recent() const;

 private:
  MonoTime next_look_{};
  uint64_t before_;
  uint64_t last_;
};

}  // namespace dtune
