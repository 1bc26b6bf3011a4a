// What observers are shown.
#include <algorithm>
#include <utility>

#include "dtune/cluster/coordinator_impl.h"

namespace dtune {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);

}  // namespace

void Coordinator::Impl::tick() {
  const MonoTime now = clock_.now();
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  sink_.on_tick(study_, cluster_status());
}

// Its agent is gone, and another has taken its place, or is on its node.
bool Coordinator::Impl::is_replaced(const RegisteredSlot& slot) const {
  const RegisteredAgent& own = registry_.agent_of(slot);
  if (slot.number >= own.slot_count) return true;
  if (own.present) return false;
  const auto& slots = registry_.slots();
  return std::any_of(slots.begin(), slots.end(), [&](const RegisteredSlot& s) {
    const RegisteredAgent& other = registry_.agent_of(s);
    return other.present && other.node == own.node;
  });
}

ForecastFacts Coordinator::Impl::forecast_facts() const {
  ForecastFacts facts;
  facts.elapsed = session_.seconds(clock_.now());
  facts.session = session_.own_seconds(study_.searched_seconds);
  facts.session_steps = session_.own_steps(budget_.steps());
  const auto usable = std::count_if(
      registry_.slots().begin(), registry_.slots().end(),
      [](const RegisteredSlot& slot) { return slot.state != SlotState::gone; });
  facts.trials_at_once = std::max(1, static_cast<int>(usable) / gangs_.size());
  facts.searching = phase_ == Phase::search;
  facts.best = best_.id();
  facts.finals = final_.trials();
  if (!final_.wanted()) return facts;
  facts.final_steps = final_.horizon();
  if (best_.id() != 0 && final_.is_same_training()) {
    facts.final_known =
        std::min(study_.trial(best_.id()).steps(), final_.horizon());
  }
  return facts;
}

ClusterStatus Coordinator::Impl::cluster_status() {
  const MonoTime now = registry_.clock().now();
  ClusterStatus status;
  const ForecastFacts facts = forecast_facts();
  const Forecast forecast = forecaster_.estimate(study_, facts);
  status.elapsed_seconds = facts.elapsed;
  status.done_fraction = forecast.done;
  if (forecast.left) {
    status.remaining_low = forecast.left->low;
    status.remaining_high = forecast.left->high;
  }
  for (const RegisteredSlot& slot : registry_.slots()) {
    if (is_replaced(slot)) continue;
    SlotStatus out;
    out.node = registry_.agent_of(slot).node;
    out.slot = slot.number;
    const bool held =
        slot.state == SlotState::busy || slot.state == SlotState::releasing;
    out.trial = held ? slot.trial : 0;
    const bool leaves = slot.state == SlotState::gone ||
                        (registry_.agent_of(slot).leaving && !held);
    out.phase = leaves                                 ? "lost"
                : slot.state == SlotState::down        ? "starting"
                : held && !slot.progress.phase.empty() ? slot.progress.phase
                : held                                 ? "training"
                : rests(slot)                          ? "resting"
                                                       : "idle";
    if (held) out.seconds_since_report = to_seconds(now - slot.last_report);
    out.progress = slot.progress.fraction;
    out.samples_per_second = slot.progress.samples_per_second;
    out.resident_bytes = slot.progress.resident_bytes;
    out.together = slot.progress.together;
    status.slots.push_back(std::move(out));
  }
  show_gangs(status);
  return status;
}

}  // namespace dtune
