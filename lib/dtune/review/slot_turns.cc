#include <algorithm>
#include <map>
#include <utility>

#include "dtune/review/page_data.h"

namespace dtune {
namespace {

// Which lane a turn has.
class Lanes {
 public:
  int take(const TrialEvent& event) {
    if (event.slot < 0) return take_lowest();
    const auto [slot, fresh] =
        by_slot_.try_emplace({event.node, event.slot}, taken_.size());
    if (fresh) taken_.push_back(true);
    return static_cast<int>(slot->second);
  }
  void leave(const SlotTurn& turn) {
    if (turn.slot < 0) taken_[static_cast<size_t>(turn.lane)] = false;
  }

 private:
  int take_lowest() {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto lane = free - taken_.begin();
    if (free == taken_.end()) taken_.push_back(true);
    taken_[static_cast<size_t>(lane)] = true;
    return static_cast<int>(lane);
  }

  std::vector<bool> taken_;  // those of known slots for good
  std::map<std::pair<std::string, int>, size_t> by_slot_;
};

}  // namespace

std::vector<SlotTurn> slot_turns(const std::vector<TrialEvent>& events,
                                 int64_t now_ms) {
  std::vector<SlotTurn> turns;
  std::map<TrialId, size_t> open;  // its place in `turns`
  std::map<TrialId, bool> seen;
  Lanes lanes;
  for (const TrialEvent& event : events) {
    const auto current = open.find(event.trial);
    if (current != open.end()) {
      SlotTurn& turn = turns[current->second];
      turn.end_ms = event.wall_ms;
      turn.state = event.state;
      lanes.leave(turn);
      open.erase(current);
    }
    if (event.state != TrialState::running) continue;
    open[event.trial] = turns.size();
    turns.push_back({.trial = event.trial,
                     .lane = lanes.take(event),
                     .start_ms = event.wall_ms,
                     .end_ms = event.wall_ms,
                     .resumed = std::exchange(seen[event.trial], true),
                     .node = event.node,
                     .slot = event.slot});
  }
  for (const auto& [trial, place] : open) {
    turns[place].end_ms = std::max(now_ms, turns[place].start_ms);
  }
  return turns;
}

}  // namespace dtune
