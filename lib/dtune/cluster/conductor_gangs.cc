// Trials that take several slots: who sits where, who may leave.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "dtune/cluster/conductor.h"

namespace dtune {
namespace {

// Slots that come within this time are no news.
constexpr Duration kUsualWait = std::chrono::seconds(5);

bool is_server(const ParallelSpec& parallel, int member) {
  return parallel.sync == SyncKind::ps && member >= parallel.ranks;
}

// Its process or machine failed, not what it trains.
bool is_loss(Reason reason) {
  return reason == Reason::killed || reason == Reason::crashed ||
         reason == Reason::node_lost || reason == Reason::lease_lapsed ||
         reason == Reason::straggling;
}

std::string how_it_ended(const control::Ended& ended) {
  if (ended.signal > 0) return fmt::format(" (signal {})", ended.signal);
  if (ended.exit_code > 0) return fmt::format(" (code {})", ended.exit_code);
  return "";
}

}  // namespace

// Slots for the next trial, all that it needs or none: those of one node where
// that is possible, so that its ranks are near each other.
std::vector<size_t> Conductor::free_slots() const {
  const auto& slots = fleet_.slots();
  const std::set<size_t> lone = lone_slots();
  std::map<size_t, std::vector<size_t>> by_agent;
  size_t idle = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state != SlotState::idle) continue;
    if (gangs_ == nullptr || lone.contains(i)) return {i};
    by_agent[slots[i].agent].push_back(i);
    ++idle;
  }
  const auto wanted = static_cast<size_t>(gang_members(study_.recipe.parallel));
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

// Slots that running gangs do better without: waiting for a gang of their own
// they would idle until the other one ends.
std::set<size_t> Conductor::lone_slots() const {
  std::set<size_t> lone;
  if (gangs_ == nullptr) return lone;
  for (const TrialId id : leased()) {
    lone.insert(runs_[size_t(id) - 1].lone.begin(),
                runs_[size_t(id) - 1].lone.end());
  }
  return lone;
}

void Conductor::open_gang(const Trial& trial, TrialRun& run) {
  run.members = static_cast<int>(run.seats.size());
  run.evicted.clear();
  run.missed.clear();
  run.lone.clear();
  run.gang.clear();
  if (gangs_ == nullptr || run.members == 1) return;
  run.gang = fmt::format("{}.{}", trial.id, trial.attempt);
  // Members look for it themselves only where they have steps behind them.
  if (trial.steps() == 0) {
    std::error_code ignored;
    std::filesystem::remove(checkpoint_of(trial), ignored);
  }
  GangOptions options;
  options.gang = run.gang;
  options.parallel = study_.recipe.parallel;
  options.lease = study_.recipe.limits.lease;
  for (const Seat& seat : run.seats) {
    const FleetSlot& slot = fleet_.slots()[seat.slot];
    options.nodes.push_back(fleet_.agent_of(slot).node);
  }
  gangs_->open(options);
}

void Conductor::close_gang(TrialRun& run) {
  // It keeps its name: reports of its ranks may still be on their way.
  if (run.gang.empty()) return;
  gangs_->close(run.gang, "the trial has left its slots");
}

void Conductor::take_seat(const TrialRun& run, const Seat& seat,
                          control::Assign& assign) const {
  if (run.gang.empty()) return;
  assign.gang = run.gang;
  assign.member = seat.member;
  assign.members = run.members;
  const FleetAgent& agent = fleet_.agent_of(fleet_.slots()[seat.slot]);
  if (agent.remote) {
    assign.gang_endpoint = gangs_->remote_endpoint();
    if (options_.gangs.security) {
      assign.gang_key = options_.gangs.security->keys.public_key;
    }
  } else {
    assign.gang_endpoint = gangs_->local_endpoint();
    assign.gang_address = options_.gang_address;
  }
}

// Whether the ranks that are left can do without one that has ended.
bool Conductor::goes_on_without(const Trial& trial, const TrialRun& run,
                                int member, const control::Ended& ended) const {
  if (run.gang.empty() || !run.leased()) return false;
  if (trial.state != TrialState::running) return true;  // all are leaving
  const ParallelSpec& parallel = study_.recipe.parallel;
  if (ended.outcome == control::Outcome::complete) {
    return ended.metrics.empty();  // only the lead has tested the model
  }
  const bool elastic =
      parallel.mode == ParallelMode::data && !is_server(parallel, member) &&
      std::any_of(run.seats.begin(), run.seats.end(), [&](const Seat& seat) {
        return !is_server(parallel, seat.member);
      });
  if (!elastic) return false;
  if (ended.outcome == control::Outcome::temporary) {  // its node leaves
    return ended.reason == Reason::node_lost;
  }
  return ended.outcome == control::Outcome::failed && is_loss(ended.reason);
}

void Conductor::seat_left(Trial& trial, int member, const LeaseOver& over) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  const control::Ended& ended = over.ended;
  gangs_->member_lost(run.gang, member, ended.detail);
  if (trial.state != TrialState::running ||
      ended.outcome == control::Outcome::complete) {
    return;
  }
  if (ended.reason == Reason::straggling) {
    run.evicted.insert(member);
    run.lone.insert(over.slot);
  }
  run.missed.insert(member);
  const FleetSlot& slot = fleet_.slots()[over.slot];
  const std::string why =
      fmt::format("rank {} on {}{}: {}; the other {} go on", member,
                  fleet_.agent_of(slot).node, how_it_ended(ended), ended.detail,
                  run.seats.size());
  records_.change(trial, TrialState::running, ended.reason, why);
  records_.notice(fmt::format("trial {}: {}", trial.id, why));
}

// A gang that has lost ranks takes new ones in where slots are free that no
// other trial can use.
void Conductor::fill_vacancies() {
  if (gangs_ == nullptr || phase_ == Phase::done) return;
  if (study_.recipe.parallel.mode != ParallelMode::data) return;
  const std::set<size_t> lone = lone_slots();
  for (size_t slot = 0; slot < fleet_.slots().size(); ++slot) {
    if (fleet_.slots()[slot].state != SlotState::idle) continue;
    if (lone.contains(slot)) continue;
    for (const TrialId id : leased()) {
      if (fill_vacancy(study_.trial(id), slot)) break;
    }
  }
}

// False: the trial has none, or is about to leave its slots.
bool Conductor::fill_vacancy(Trial& trial, size_t slot) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  if (run.gang.empty() || trial.state != TrialState::running) return false;
  const FleetSlot& first = fleet_.slots()[run.seats[0].slot];
  if (first.state != SlotState::busy || first.at_target) return false;
  const auto taken = [&](int member) {
    return run.evicted.contains(member) ||
           is_server(study_.recipe.parallel, member) ||
           std::any_of(run.seats.begin(), run.seats.end(),
                       [&](const Seat& s) { return s.member == member; });
  };
  int vacant = 0;
  while (vacant < run.members && taken(vacant)) ++vacant;
  if (vacant == run.members) return false;
  const Seat seat{slot, vacant};
  run.seats.push_back(seat);
  assign(slot, describe(trial, first.granted, seat));
  records_.notice(fmt::format(
      "trial {}: rank {} is taken over by slot {} of {}", trial.id, vacant,
      fleet_.slots()[slot].number, fleet_.agent_of(fleet_.slots()[slot]).node));
  return true;
}

void Conductor::on_gang_events() {
  if (gangs_ == nullptr) return;
  const std::vector<GangEvent> events = gangs_->take_events();
  if (events.empty()) return;
  std::map<std::string, TrialId> open;
  for (const TrialId id : leased()) {
    if (study_.trial(id).state != TrialState::running) continue;
    open.emplace(runs_[size_t(id) - 1].gang, id);
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
        break;  // in the table; a lost rank's end is told with its cause
      case GangEvent::Kind::rejoined:
        rank_is_back(trial->second, event.member);
        break;
      default:
        records_.notice(fmt::format("trial {}: {}", trial->second, event.text));
    }
  }
}

// Told only of whom it was told that it had left; nothing is said of who was
// late. The gang names the node that the rank had at first.
void Conductor::rank_is_back(TrialId id, int member) {
  TrialRun& run = runs_[size_t(id) - 1];
  const auto seat =
      std::find_if(run.seats.begin(), run.seats.end(),
                   [member](const Seat& s) { return s.member == member; });
  if (seat == run.seats.end() || run.missed.erase(member) == 0) return;
  records_.notice(
      fmt::format("trial {}: rank {} on {} has caught up", id, member,
                  fleet_.agent_of(fleet_.slots()[seat->slot]).node));
}

// A request that the cluster cannot fill would wait for ever.
void Conductor::check_gang_size(MonoTime now) {
  if (gangs_ == nullptr || phase_ == Phase::done) return;
  const auto& slots = fleet_.slots();
  const auto usable =
      std::count_if(slots.begin(), slots.end(), [this](const FleetSlot& s) {
        return s.state != SlotState::gone && !fleet_.agent_of(s).leaving;
      });
  const int wanted = gang_members(study_.recipe.parallel);
  if (usable == 0 || usable >= wanted || any_lease() || stop_level_ > 0) {
    too_small_since_ = {};
    too_small_.clear();
    return;
  }
  if (too_small_since_ == MonoTime{}) too_small_since_ = now;
  if (too_small_.empty() && now - too_small_since_ >= kUsualWait) {
    too_small_ = fmt::format("a trial takes {} slots (parallel), {} {} here",
                             wanted, usable, usable == 1 ? "is" : "are");
    records_.notice(too_small_ + "; waiting for nodes");
  }
  // Nodes may still be on their way, or back.
  if (now - too_small_since_ < options_.agent_timeout) return;
  end(StudyState::failed,
      fmt::format("a trial takes {} slots (parallel), but the nodes that have "
                  "joined bring {} (fewer ranks, more nodes, or "
                  "resources.slots to run several on a core)",
                  wanted, usable));
}

// For the end of a search that waited for slots to the last.
std::string Conductor::lack_of_slots() const {
  if (too_small_.empty()) return "";
  return fmt::format(", the last {} of it waiting for nodes: {}",
                     format_duration(clock_.now() - too_small_since_),
                     too_small_);
}

void Conductor::show_gangs(ClusterStatus& status) const {
  if (gangs_ == nullptr) return;
  for (const TrialId id : leased()) {
    const TrialRun& run = runs_[size_t(id) - 1];
    if (run.gang.empty()) continue;
    const GangStatus gang = gangs_->status(run.gang);
    for (const Seat& seat : run.seats) {
      const FleetSlot& slot = fleet_.slots()[seat.slot];
      const std::string& node = fleet_.agent_of(slot).node;
      const auto shown = std::find_if(
          status.slots.begin(), status.slots.end(), [&](const SlotStatus& s) {
            return s.slot == slot.number && s.node == node;
          });
      if (shown == status.slots.end()) continue;
      shown->member = seat.member;
      if (static_cast<size_t>(seat.member) >= gang.members.size()) continue;
      const MemberStatus& member = gang.members[size_t(seat.member)];
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
