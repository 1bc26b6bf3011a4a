#include "dtune/cluster/warm_sessions.h"

#include <algorithm>
#include <utility>

namespace dtune {

void WarmSessions::set_limits(uint64_t max_bytes, int max_count) {
  max_bytes_ = max_bytes;
  max_count_ = max_count;
  trim();
}

void WarmSessions::put(TrialId trial, Attempt attempt,
                       std::unique_ptr<TrialSession> session) {
  const uint64_t bytes = session->resident_bytes();
  entries_.push_front({trial, attempt, bytes, std::move(session)});
  trim();
}

std::unique_ptr<TrialSession> WarmSessions::take(TrialId trial, Attempt attempt,
                                                 int steps) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [trial](const Entry& e) { return e.trial == trial; });
  if (found == entries_.end()) return nullptr;
  Entry entry = std::move(*found);
  entries_.erase(found);
  if (entry.attempt + 1 != attempt || entry.session->steps_done() != steps) {
    return nullptr;
  }
  return std::move(entry.session);
}

void WarmSessions::forget(TrialId trial) {
  entries_.remove_if([trial](const Entry& e) { return e.trial == trial; });
}

void WarmSessions::trim() {
  uint64_t bytes = 0;
  int count = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    bytes += it->bytes;
    ++count;
    const bool fits =
        max_count_ > 0 ? count <= max_count_ : bytes <= max_bytes_;
    it = fits ? std::next(it) : entries_.erase(it);
  }
}

}  // namespace dtune
