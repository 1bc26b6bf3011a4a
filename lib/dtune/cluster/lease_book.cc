#include "dtune/cluster/lease_book.h"

namespace dtune {

Attempt LeaseBook::begin(TrialId id, const std::vector<size_t>& slots,
                         Attempt before, int steps, MonoTime now) {
  Lease& lease = of(id);
  lease.slots.clear();
  for (const size_t slot : slots) {
    lease.slots.push_back({slot, static_cast<int>(lease.slots.size())});
  }
  lease.steps_before = steps;
  lease.reported = 0;
  lease.began = now;
  lease.last_attempt = std::max(lease.last_attempt, before) + 1;
  return lease.last_attempt;
}

void LeaseBook::move_to(TrialId id, size_t slot) {
  of(id).slots = {{slot, 0}};
  of(id).reported = 0;
}

void LeaseBook::add_slot(TrialId id, const LeasedSlot& held) {
  of(id).slots.push_back(held);
}

std::optional<int> LeaseBook::leave(TrialId id, size_t slot) {
  std::vector<LeasedSlot>& slots = of(id).slots;
  const auto held =
      std::find_if(slots.begin(), slots.end(),
                   [slot](const LeasedSlot& s) { return s.slot == slot; });
  if (held == slots.end()) return std::nullopt;
  const int member = held->member;
  slots.erase(held);
  return member;
}

void LeaseBook::end(TrialId id, MonoTime now) {
  of(id).seconds = seconds(id, now);
  of(id).began = {};
}

double LeaseBook::seconds(TrialId id, MonoTime now) const {
  const Lease& lease = of(id);
  const bool under_way = lease.began != MonoTime{};
  return lease.seconds + (under_way ? to_seconds(now - lease.began) : 0);
}

void LeaseBook::note_report(TrialId id, int step) {
  of(id).reported = std::max(of(id).reported, step);
}

std::optional<TrialId> LeaseBook::next_owed() const {
  for (const TrialId id : owed_) {
    if (!leased(id)) return id;
  }
  return std::nullopt;
}

}  // namespace dtune
