// `deterministic`: reports of trials wait here until every slot has reported,
// and are then taken in the order of trials.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "dtune/cluster/agent_registry.h"

namespace dtune {

// Not thread-safe.
class ReportBarrier {
 public:
  void add(TrialId id, RegistryEvent event) {
    waiting_[id].push_back(std::move(event));
  }
  bool empty() const { return waiting_.empty(); }
  bool holds(TrialId id) const { return waiting_.contains(id); }
  void clear() { waiting_.clear(); }

  // The first event of each trial, in the order of trials.
  std::vector<RegistryEvent> take_one_each() {
    std::vector<RegistryEvent> batch;
    for (auto& [id, queue] : waiting_) {
      batch.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    std::erase_if(waiting_, [](const auto& p) { return p.second.empty(); });
    return batch;
  }

 private:
  std::map<TrialId, std::deque<RegistryEvent>> waiting_;
};

}  // namespace dtune
