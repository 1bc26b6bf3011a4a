// What whoever watches is shown.
#include <algorithm>
#include <utility>

#include "dtune/cluster/conductor.h"

namespace dtune {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);

}  // namespace

void Conductor::tick() {
  const MonoTime now = clock_.now();
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  sink_.on_tick(study_, cluster_status());
}

// Its agent is gone, and another has taken its place on the node.
bool Conductor::is_replaced(const FleetSlot& slot) const {
  const FleetAgent& own = fleet_.agent_of(slot);
  if (own.present) return false;
  const auto& slots = fleet_.slots();
  return std::any_of(slots.begin(), slots.end(), [&](const FleetSlot& s) {
    const FleetAgent& other = fleet_.agent_of(s);
    return other.present && other.node == own.node;
  });
}

ClusterStatus Conductor::cluster_status() {
  const MonoTime now = clock_.now();
  ClusterStatus status;
  status.elapsed_seconds = study_.searched_seconds;
  status.done_fraction = budget_.done_fraction(study_);
  if (status.done_fraction > 0.01) {
    status.remaining_seconds = status.elapsed_seconds *
                               (1 - status.done_fraction) /
                               status.done_fraction;
  }
  for (const FleetSlot& slot : fleet_.slots()) {
    if (is_replaced(slot)) continue;
    SlotStatus out;
    out.node = fleet_.agent_of(slot).node;
    out.slot = slot.number;
    const bool held =
        slot.state == SlotState::busy || slot.state == SlotState::releasing;
    out.trial = held ? slot.trial : 0;
    const bool leaves = slot.state == SlotState::gone ||
                        (fleet_.agent_of(slot).leaving && !held);
    out.phase = leaves                                 ? "lost"
                : slot.state == SlotState::down        ? "starting"
                : held && !slot.progress.phase.empty() ? slot.progress.phase
                : held                                 ? "training"
                                                       : "idle";
    if (held) out.seconds_since_report = to_seconds(now - slot.last_report);
    out.progress = slot.progress.fraction;
    out.samples_per_second = slot.progress.samples_per_second;
    out.resident_bytes = slot.progress.resident_bytes;
    status.slots.push_back(std::move(out));
  }
  show_gangs(status);
  return status;
}

}  // namespace dtune
