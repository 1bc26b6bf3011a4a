// Agents that come and go: what trials could use, and which have to leave
// before their engine ends them.
#include <algorithm>

#include <fmt/format.h>

#include "dtune/cluster/coordinator_impl.h"

namespace dtune {
namespace {

// Engines warn and end a quarter of a minute early or late.
constexpr Duration kImprecision = std::chrono::seconds(15);
// Asking an engine for another agent takes a while.
constexpr Duration kSuccession = std::chrono::minutes(2);
constexpr int64_t kAnyNumber = int64_t{1} << 20;  // of trials

}  // namespace

// What an agent needs to pause its trials and end its workers.
Duration Coordinator::Impl::margin() const {
  return 2 * study_.recipe.limits.grace + kImprecision;
}

// No step that is begun there would end before its engine ends the agent. One
// that was too short from the start is used as it is: the longest step may have
// been an exception.
bool Coordinator::Impl::ends_soon(const RegisteredAgent& agent) const {
  if (agent.ends == MonoTime::max()) return false;
  const Duration needed = from_seconds(registry_.longest_step()) + margin();
  if (agent.ends - agent.joined < needed) return false;
  return registry_.clock().now() + needed > agent.ends;
}

// True: the trial leaves a node whose time is up, and goes on elsewhere.
bool Coordinator::Impl::leave_in_time(Trial& trial) {
  for (const LeasedSlot& held : leases_.slots(trial.id)) {
    const RegisteredAgent& agent =
        registry_.agent_of(registry_.slots()[held.slot]);
    if (!ends_soon(agent)) continue;
    const std::string why =
        fmt::format("node {} ends before another step would", agent.node);
    records_.decide(trial, DecisionMaker::coordinator, "pause", why);
    records_.change(trial, TrialState::paused, Reason::node_lost, why);
    leases_.owe(trial.id);
    release(trial, true);
    return true;
  }
  return false;
}

void Coordinator::Impl::check_deadlines() {
  const MonoTime now = registry_.clock().now();
  const auto& agents = registry_.agents();
  for (size_t i = 0; i < agents.size(); ++i) {
    const RegisteredAgent& agent = agents[i];
    if (!agent.present || agent.dismissed) continue;
    if (agent.ends == MonoTime::max()) continue;
    const bool late = now + margin() > agent.ends;
    if (!late && (!ends_soon(agent) || is_busy(agent))) continue;
    records_.notice(
        fmt::format("node {} leaves: its engine ends it in {}", agent.node,
                    format_duration(std::max(agent.ends - now, Duration(0)))));
    registry_.dismiss(i);
  }
}

bool Coordinator::Impl::is_busy(const RegisteredAgent& agent) const {
  const auto first =
      registry_.slots().begin() + static_cast<std::ptrdiff_t>(agent.first_slot);
  return std::any_of(first, first + agent.slot_count,
                     [](const RegisteredSlot& slot) {
                       return slot.state == SlotState::busy ||
                              slot.state == SlotState::releasing;
                     });
}

Demand Coordinator::Impl::demand() const {
  Demand demand;
  const int64_t trials = static_cast<int64_t>(leased().size()) +
                         leases_.owed() + startable_trials();
  demand.slots = trials * gangs_.size();
  const MonoTime now = registry_.clock().now();
  for (const RegisteredAgent& agent : registry_.agents()) {
    if (!agent.present) continue;
    // The successor of one that ends is asked for before that.
    const Duration life = agent.ends - agent.joined;
    const bool ends = agent.leaving || ends_soon(agent) ||
                      agent.ends - now < std::min(kSuccession, life / 4);
    demand.agents.push_back({agent.job, agent.slot_count, ends});
  }
  return demand;
}

// That the scheduler might start or resume now, if there were slots.
int64_t Coordinator::Impl::startable_trials() const {
  if (phase_ != Phase::search || search_over_ || !changed_) return 0;
  const auto paused = std::count_if(
      study_.trials.begin(), study_.trials.end(), [this](const Trial& trial) {
        return trial.state == TrialState::paused && !leases_.leased(trial.id) &&
               !leases_.is_owed(trial.id);
      });
  const int64_t budget = study_.recipe.budget.trials;
  return paused + (budget == 0
                       ? kAnyNumber
                       : std::max<int64_t>(budget - budget_.trials(), 0));
}

}  // namespace dtune
