#include "dtune/cluster/trial_gangs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/cluster/capability.h"

namespace dtune {
namespace {

// Its process or machine failed, not what it trains.
bool is_loss(Reason reason) {
  return reason == Reason::killed || reason == Reason::crashed ||
         reason == Reason::node_lost || reason == Reason::lease_lapsed ||
         reason == Reason::straggling;
}

}  // namespace

TrialGangs::TrialGangs(const Recipe& recipe, TrialGangsOptions options)
    : parallel_(recipe.parallel),
      lease_(recipe.limits.lease),
      options_(std::move(options)) {
  if (parallel_.mode == ParallelMode::none) return;
  server_ = std::make_unique<GangServer>(options_.listen, options_.wake);
  if (!options_.trace.empty()) server_->trace_to(options_.trace);
}

int TrialGangs::size() const { return enabled() ? gang_members(parallel_) : 1; }

const TrialGangs::Gang& TrialGangs::of(TrialId id) const {
  static const Gang none;
  const auto found = gangs_.find(id);
  return found == gangs_.end() ? none : found->second;
}

bool TrialGangs::is_server(int member) const {
  return parallel_.sync == SyncKind::ps && member >= parallel_.ranks;
}

void TrialGangs::begin(const Trial& trial,
                       const std::vector<std::string>& nodes) {
  if (!enabled()) return;
  Gang& gang = gangs_[trial.id] = {};
  gang.members = static_cast<int>(nodes.size());
  if (gang.members == 1) return;
  // Only processes that have the name can join.
  gang.name =
      fmt::format("{}.{}-{}", trial.id, trial.attempt, new_capability());
  GangOptions options;
  options.gang = gang.name;
  options.parallel = parallel_;
  options.lease = lease_;
  options.nodes = nodes;
  server_->open(options);
}

void TrialGangs::end(TrialId id) {
  if (has(id)) server_->close(name(id), "the trial has left its slots");
}

void TrialGangs::describe(TrialId id, int member, bool remote,
                          control::Assign& assign) const {
  if (!has(id)) return;
  assign.gang = name(id);
  assign.member = member;
  assign.members = of(id).members;
  if (remote) {
    assign.gang_endpoint = server_->remote_endpoint();
    if (options_.listen.security) {
      assign.gang_key = options_.listen.security->keys.public_key;
    }
  } else {
    assign.gang_endpoint = server_->local_endpoint();
    assign.gang_address = options_.address;
  }
}

void TrialGangs::admit(const control::Assign& assign, const std::string& key) {
  if (assign.gang.empty()) return;
  const bool proven = options_.listen.security.has_value();
  server_->admit(assign.gang, assign.member, proven ? key : "");
}

bool TrialGangs::goes_on_without(const Trial& trial,
                                 const std::vector<LeasedSlot>& rest,
                                 int member,
                                 const control::Ended& ended) const {
  if (!has(trial.id) || rest.empty()) return false;
  if (trial.state != TrialState::running) return true;  // all are leaving
  if (ended.outcome == control::Outcome::complete) {
    return ended.metrics.empty();  // only the leader has tested the model
  }
  const bool any_computes = std::any_of(
      rest.begin(), rest.end(),
      [this](const LeasedSlot& held) { return !is_server(held.member); });
  if (!any_computes || !server_->can_lose(name(trial.id), member)) return false;
  if (ended.outcome == control::Outcome::temporary) {  // its node leaves
    return ended.reason == Reason::node_lost;
  }
  return ended.outcome == control::Outcome::failed && is_loss(ended.reason);
}

bool TrialGangs::member_left(const Trial& trial, const LeasedSlot& held,
                             const control::Ended& ended) {
  server_->member_lost(name(trial.id), held.member, ended.detail);
  if (trial.state != TrialState::running ||
      ended.outcome == control::Outcome::complete) {
    return false;
  }
  Gang& gang = gangs_[trial.id];
  if (ended.reason == Reason::straggling) {
    gang.evicted.insert(held.member);
    gang.lone.insert(held.slot);
  }
  gang.missed.insert(held.member);
  return true;
}

bool TrialGangs::is_news_that_back(TrialId id, int member) {
  const auto gang = gangs_.find(id);
  return gang != gangs_.end() && gang->second.missed.erase(member) > 0;
}

std::optional<int> TrialGangs::vacancy(
    TrialId id, const std::vector<LeasedSlot>& held) const {
  const Gang& gang = of(id);
  const auto taken = [&](int member) {
    return gang.evicted.contains(member) || is_server(member) ||
           std::any_of(held.begin(), held.end(),
                       [&](const LeasedSlot& s) { return s.member == member; });
  };
  int vacant = 0;
  while (vacant < gang.members && taken(vacant)) ++vacant;
  if (vacant == gang.members) return std::nullopt;
  return vacant;
}

std::set<size_t> TrialGangs::lone_slots(
    const std::vector<TrialId>& trials) const {
  std::set<size_t> lone;
  for (const TrialId id : trials) {
    lone.insert(of(id).lone.begin(), of(id).lone.end());
  }
  return lone;
}

}  // namespace dtune
