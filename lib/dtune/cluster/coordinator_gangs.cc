// Trials that take several slots: which slot has which rank, which may leave.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "dtune/cluster/coordinator_impl.h"

namespace dtune {
namespace {

std::string how_it_ended(const control::Ended& ended) {
  if (ended.signal > 0) return fmt::format(" (signal {})", ended.signal);
  if (ended.exit_code > 0) return fmt::format(" (code {})", ended.exit_code);
  return "";
}

}  // namespace

// Its node is not given anything for a while; where all nodes rest, none does:
// then it is the trials that fail.
bool Coordinator::Impl::rests(const RegisteredSlot& slot) const {
  const MonoTime now = clock_.now();
  if (ends_soon(registry_.agent_of(slot))) return true;
  if (!nodes_.rests(registry_.agent_of(slot).node, now)) return false;
  const auto& slots = registry_.slots();
  return std::any_of(slots.begin(), slots.end(), [&](const RegisteredSlot& s) {
    return s.state != SlotState::gone &&
           !nodes_.rests(registry_.agent_of(s).node, now);
  });
}

// Slots for the next trial, all that it needs or none: those of one node where
// that is possible, so that its ranks are near each other.
std::vector<size_t> Coordinator::Impl::free_slots(size_t from) const {
  const auto& slots = registry_.slots();
  std::set<size_t> lone;
  if (gangs_.enabled()) lone = gangs_.lone_slots(leased());
  std::map<size_t, std::vector<size_t>> by_agent;
  size_t idle = 0;
  for (size_t i = from; i < slots.size(); ++i) {
    if (slots[i].state != SlotState::idle || rests(slots[i])) continue;
    if (!gangs_.enabled() || lone.contains(i)) return {i};
    by_agent[slots[i].agent].push_back(i);
    ++idle;
  }
  const auto wanted = static_cast<size_t>(gangs_.size());
  if (idle == 0 || idle < wanted) return {};
  std::vector<std::vector<size_t>> nodes;
  nodes.reserve(by_agent.size());
  for (auto& [agent, own] : by_agent) nodes.push_back(std::move(own));
  // The smallest node that has room for all, else the largest first.
  std::stable_sort(nodes.begin(), nodes.end(),
                   [wanted](const auto& a, const auto& b) {
                     const bool fits_a = a.size() >= wanted;
                     const bool fits_b = b.size() >= wanted;
                     if (fits_a != fits_b) return fits_a;
                     return fits_a ? a.size() < b.size() : a.size() > b.size();
                   });
  std::vector<size_t> chosen;
  for (const std::vector<size_t>& own : nodes) {
    for (const size_t slot : own) {
      if (chosen.size() < wanted) chosen.push_back(slot);
    }
  }
  return chosen;
}

void Coordinator::Impl::open_gang(const Trial& trial) {
  std::vector<std::string> nodes;
  for (const LeasedSlot& held : leases_.slots(trial.id)) {
    nodes.push_back(registry_.agent_of(registry_.slots()[held.slot]).node);
  }
  gangs_.begin(trial, nodes);
  // Members look for it themselves only where they have steps behind them.
  if (gangs_.has(trial.id) && trial.steps() == 0) {
    std::error_code ignored;
    std::filesystem::remove(final_.checkpoint(trial), ignored);
  }
}

void Coordinator::Impl::member_left(Trial& trial, int member,
                                    const LeaseOver& over) {
  const control::Ended& ended = over.ended;
  if (!gangs_.member_left(trial, {over.slot, member}, ended)) return;
  const RegisteredSlot& slot = registry_.slots()[over.slot];
  const size_t rest = leases_.slots(trial.id).size();
  const std::string why = fmt::format(
      "rank {} on {}{}: {}; {}", member, registry_.agent_of(slot).node,
      how_it_ended(ended), ended.detail,
      rest == 1 ? "the other goes on"
                : fmt::format("the other {} go on", rest));
  records_.change(trial, TrialState::running, ended.reason, why);
  records_.notice(fmt::format("trial {}: {}", trial.id, why));
}

// A gang that has lost ranks takes new ones in where slots are free that no
// other trial can use.
void Coordinator::Impl::fill_vacancies() {
  if (!gangs_.enabled() || phase_ == Phase::done) return;
  if (study_.recipe.parallel.mode != ParallelMode::data) return;
  const std::set<size_t> lone = gangs_.lone_slots(leased());
  for (size_t slot = 0; slot < registry_.slots().size(); ++slot) {
    if (registry_.slots()[slot].state != SlotState::idle) continue;
    if (lone.contains(slot)) continue;
    for (const TrialId id : leased()) {
      if (fill_vacancy(study_.trial(id), slot)) break;
    }
  }
}

// False: the trial has none, or is about to leave its slots.
bool Coordinator::Impl::fill_vacancy(Trial& trial, size_t slot) {
  if (!gangs_.has(trial.id) || trial.state != TrialState::running) return false;
  const RegisteredSlot& first = registry_.slots()[leases_.first_slot(trial.id)];
  if (first.state != SlotState::busy || first.at_target) return false;
  const auto vacant = gangs_.vacancy(trial.id, leases_.slots(trial.id));
  if (!vacant) return false;
  const LeasedSlot held{slot, *vacant};
  leases_.add_slot(trial.id, held);
  assign(slot, describe(trial, first.granted, held));
  records_.notice(
      fmt::format("trial {}: rank {} is taken over by slot {} of {}", trial.id,
                  *vacant, registry_.slots()[slot].number,
                  registry_.agent_of(registry_.slots()[slot]).node));
  return true;
}

void Coordinator::Impl::on_gang_events() {
  if (!gangs_.enabled()) return;
  const std::vector<GangEvent> events = gangs_.take_events();
  if (events.empty()) return;
  std::map<std::string, TrialId> open;
  for (const TrialId id : leased()) {
    if (study_.trial(id).state != TrialState::running) continue;
    open.emplace(gangs_.name(id), id);
  }
  for (const GangEvent& event : events) {
    if (event.kind == GangEvent::Kind::untraced) {  // of whatever gang
      records_.notice(event.text);
      continue;
    }
    const auto trial = open.find(event.gang);
    if (trial == open.end()) continue;  // its ranks are leaving it
    switch (event.kind) {
      case GangEvent::Kind::late:
      case GangEvent::Kind::balanced:
      case GangEvent::Kind::lost:
        break;  // in the table; a lost rank's end is reported with its cause
      case GangEvent::Kind::rejoined:
        rank_is_back(trial->second, event.member);
        break;
      case GangEvent::Kind::closed:
        records_.notice(fmt::format("trial {}: {}", trial->second, event.text));
        end_missing_rank(trial->second, event);
        break;
      default:
        records_.notice(fmt::format("trial {}: {}", trial->second, event.text));
    }
  }
}

// A rank that has stopped would keep its slot until the lease ends; those of a
// gang that is formed anew need it.
void Coordinator::Impl::end_missing_rank(TrialId id, const GangEvent& closed) {
  for (const LeasedSlot& held : leases_.slots(id)) {
    if (held.member != closed.member) continue;
    return registry_.kill(held.slot, Reason::lease_lapsed,
                          fmt::format("rank {} has stopped", closed.member));
  }
}

// Reported only of a rank that was reported to have left; not of one that was
// late. The gang names the node that the rank had at first.
void Coordinator::Impl::rank_is_back(TrialId id, int member) {
  const std::vector<LeasedSlot>& held = leases_.slots(id);
  const auto slot = std::find_if(
      held.begin(), held.end(),
      [member](const LeasedSlot& s) { return s.member == member; });
  if (slot == held.end() || !gangs_.is_news_that_back(id, member)) return;
  records_.notice(
      fmt::format("trial {}: rank {} on {} has caught up", id, member,
                  registry_.agent_of(registry_.slots()[slot->slot]).node));
}

// A request that the cluster cannot fill would wait for ever.
void Coordinator::Impl::check_gang_size(MonoTime now) {
  if (!gangs_.enabled() || phase_ == Phase::done) return;
  const auto& slots = registry_.slots();
  const auto usable = std::count_if(
      slots.begin(), slots.end(), [this](const RegisteredSlot& s) {
        return s.state != SlotState::gone && !registry_.agent_of(s).leaving;
      });
  const int wanted = gangs_.size();
  if (usable == 0 || usable >= wanted || any_lease() || stop_level_ > 0) {
    shortage_.end();
    return;
  }
  const std::string news =
      shortage_.note(static_cast<int>(usable), wanted, now);
  if (!news.empty()) records_.notice(news);
  // Nodes may still be on their way, or back.
  if (shortage_.lasts(now) < options_.agent_timeout) return;
  end(StudyState::failed,
      fmt::format("a trial takes {} slots (parallel), but the nodes that have "
                  "joined bring {} (fewer ranks, more nodes, or "
                  "resources.slots to run several on a core)",
                  wanted, usable));
}

void Coordinator::Impl::show_gangs(ClusterStatus& status) {
  if (!gangs_.enabled()) return;
  for (const TrialId id : leased()) {
    if (!gangs_.has(id)) continue;
    const GangStatus gang = gangs_.status(id);
    records_.put_rank_rounds(
        rank_log_.sample(study_.trial(id), gang, clock_.wall_ms()));
    for (const LeasedSlot& held : leases_.slots(id)) {
      const RegisteredSlot& slot = registry_.slots()[held.slot];
      const std::string& node = registry_.agent_of(slot).node;
      const auto shown = std::find_if(
          status.slots.begin(), status.slots.end(), [&](const SlotStatus& s) {
            return s.slot == slot.number && s.node == node;
          });
      if (shown == status.slots.end()) continue;
      shown->member = held.member;
      if (static_cast<size_t>(held.member) >= gang.members.size()) continue;
      const MemberStatus& member = gang.members[size_t(held.member)];
      shown->present = member.present;
      shown->share = member.share;
      shown->wait_share = member.wait_share;
      shown->late = member.late;
      const auto staleness = member.gauges.find("staleness");
      if (staleness != member.gauges.end()) {
        shown->staleness = staleness->second;
      }
    }
  }
}

}  // namespace dtune
