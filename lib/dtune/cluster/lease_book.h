// Which trials hold which slots, under which numbers, and which are owed a
// lease. The trials themselves belong to the study.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/study/trial.h"

namespace dtune {

// One of the slots that hold a trial's lease; a gang has several.
struct LeasedSlot {
  size_t slot = 0;  // index into AgentRegistry::slots()
  int member = 0;   // of the gang
};

// Not thread-safe. REQUIRES: trials are made known by add_up_to().
class LeaseBook {
 public:
  void add_up_to(size_t trials) { leases_.resize(trials); }

  bool leased(TrialId id) const { return !of(id).slots.empty(); }
  const std::vector<LeasedSlot>& slots(TrialId id) const {
    return of(id).slots;
  }
  // REQUIRES: leased(id).
  size_t first_slot(TrialId id) const { return of(id).slots[0].slot; }

  // A lease of all these slots begins. `before`: the trial's last attempt.
  // Returns the attempt that it is.
  Attempt begin(TrialId id, const std::vector<size_t>& slots, Attempt before,
                int steps, MonoTime now);
  // An attempt beside it, of a copy.
  Attempt next_attempt(TrialId id) { return ++of(id).last_attempt; }
  // The lease goes on in another slot alone.
  void move_to(TrialId id, size_t slot);
  void add_slot(TrialId id, const LeasedSlot& held);
  // Empty: the slot does not hold it. Else it does no longer.
  std::optional<int> leave(TrialId id, size_t slot);
  template <class Predicate>
  void leave_where(TrialId id, Predicate predicate) {
    std::erase_if(of(id).slots, predicate);
  }
  // All slots have left it.
  void end(TrialId id, MonoTime now);
  // Under leases so far, the one under way included.
  double seconds(TrialId id, MonoTime now) const;

  // Steps at its beginning, and the last that was reported under it.
  int steps_before(TrialId id) const { return of(id).steps_before; }
  int reported(TrialId id) const { return of(id).reported; }
  void note_report(TrialId id, int step);

  // Trials that are owed a lease, before the scheduler is asked for more.
  void owe(TrialId id) { owed_.insert(id); }
  void settle(TrialId id) { owed_.erase(id); }
  void settle_all() { owed_.clear(); }
  bool is_owed(TrialId id) const { return owed_.contains(id); }
  bool owes() const { return !owed_.empty(); }
  int64_t owed() const { return static_cast<int64_t>(owed_.size()); }
  // The first that holds no slot any more.
  std::optional<TrialId> next_owed() const;

 private:
  struct Lease {
    std::vector<LeasedSlot> slots;
    Attempt last_attempt = 0;  // given out, to the trial or its copy
    int steps_before = 0;
    int reported = 0;
    MonoTime began{};
    double seconds = 0;  // under leases that are over
  };
  Lease& of(TrialId id) { return leases_[size_t(id) - 1]; }
  const Lease& of(TrialId id) const { return leases_[size_t(id) - 1]; }

  std::vector<Lease> leases_;  // by id - 1
  std::set<TrialId> owed_;
};

}  // namespace dtune
