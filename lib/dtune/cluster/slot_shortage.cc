#include "dtune/cluster/slot_shortage.h"

#include <fmt/format.h>

namespace dtune {
namespace {

// Slots that come within this time are not reported.
constexpr Duration kUsualWait = std::chrono::seconds(5);

}  // namespace

std::string SlotShortage::note(int usable, int wanted, MonoTime now) {
  if (since_ == MonoTime{}) since_ = now;
  if (!said_.empty() || now - since_ < kUsualWait) return "";
  said_ = fmt::format("a trial takes {} slots (parallel), {} {} here", wanted,
                      usable, usable == 1 ? "is" : "are");
  return said_ + "; waiting for nodes";
}

std::string SlotShortage::describe(MonoTime now) const {
  if (said_.empty()) return "";
  return fmt::format(", the last {} of it waiting for nodes: {}",
                     format_duration(lasts(now)), said_);
}

}  // namespace dtune
