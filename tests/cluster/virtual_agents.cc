// The agents of a cluster in virtual time: what they answer, and their trials.
#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "cluster/virtual_cluster.h"
#include <fmt/format.h>

namespace dtune {

void VirtualCluster::hello(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  job.here = true;
  control::Hello hello{.study_id = study_id_,
                       .node = fmt::format("node{}", job.node),
                       .agent = name,
                       .slots = 1,
                       .pid = 1,
                       .job = name};
  if (job.ends > 0) hello.left_ns = from_seconds(job.ends - now()).count();
  say(name, hello);
  const auto here = std::count_if(jobs_.begin(), jobs_.end(),
                                  [](const auto& j) { return j.second.here; });
  figures_.most_agents = std::max(figures_.most_agents, int(here));
}

void VirtualCluster::heartbeat(const std::string& name) {
  if (!is_here(name)) return;
  Job& job = jobs_.at(name);
  Slot& slot = job.slot;
  const bool idle = slot.trial == 0;
  if (idle && options_.queue && now() - slot.idle_since > options_.idle) {
    return leave(name, "no trial for it");
  }
  control::Progress progress{.slot = 0,
                             .trial = slot.trial,
                             .attempt = slot.attempt,
                             .phase = idle ? "idle" : "training",
                             .activity = ++job.activity * 1000};
  if (slot.ends >= 0) {
    progress.fraction =
        std::clamp((now() - slot.began) / (slot.ends - slot.began), 0.0, 1.0);
  }
  inbox_.push_back(
      {name, encode(std::move(progress)), encode(control::Heartbeat{})});
  at(now() + heartbeat_, [this, name] { heartbeat(name); });
}

void VirtualCluster::obey(const std::string& name,
                          const control::Message& message) {
  Slot& slot = jobs_.at(name).slot;
  const auto mine = [&slot](const auto& order) {
    return slot.trial == order.trial && slot.attempt == order.attempt;
  };
  if (const auto* welcome = std::get_if<control::Welcome>(&message)) {
    heartbeat_ = to_seconds(Duration(welcome->heartbeat_ns));
    slot.idle_since = now();
    say(name, control::SlotUp{.slot = 0, .pid = 1});
    // Four times a second: many at once cost the coordinator fewer turns.
    at(std::ceil(now()) + heartbeat_ * double(rng_.below(4)) / 4,
       [this, name] { heartbeat(name); });
  } else if (const auto* order = std::get_if<control::Assign>(&message)) {
    assign(name, *order);
  } else if (const auto* more = std::get_if<control::Extend>(&message)) {
    if (!mine(*more)) return;
    const bool waits = slot.ends < 0 && !slot.starting;
    slot.target = more->target;
    if (waits) next_step(name);
  } else if (const auto* pause = std::get_if<control::Pause>(&message)) {
    release(name, *pause);
  } else if (const auto* cut = std::get_if<control::Cut>(&message)) {
    release(name, *cut);
  } else if (const auto* kill = std::get_if<control::Kill>(&message)) {
    if (!mine(*kill)) return;
    say(name, control::Ended{.slot = 0,
                             .trial = kill->trial,
                             .attempt = kill->attempt,
                             .outcome = control::Outcome::failed,
                             .reason = kill->reason,
                             .detail = kill->why,
                             .steps = slot.step});
    vacate(slot);
  } else if (std::holds_alternative<control::Stop>(message)) {
    leave(name, "asked to");
  }
}

void VirtualCluster::vacate(Slot& slot) {
  slot.warm = slot.trial;
  slot.trial = 0;
  slot.ends = -1;
  slot.idle_since = now();
}

template <class Order>
void VirtualCluster::release(const std::string& name, const Order& order) {
  Slot& slot = jobs_.at(name).slot;
  if (slot.trial != order.trial || slot.attempt != order.attempt) return;
  say(name, control::Ended{.slot = 0,
                           .trial = slot.trial,
                           .attempt = slot.attempt,
                           .steps = slot.step});
  vacate(slot);
}

// A copy of a straggler has an attempt of its own.
void VirtualCluster::check_lease(const std::string& name,
                                 const control::Assign& order) {
  for (const auto& [other, job] : jobs_) {
    if (other != name && job.here && job.slot.trial == order.trial &&
        job.slot.attempt >= order.attempt) {
      figures_.mistakes.insert(
          fmt::format("trial {} has attempt {} on {} and {} on {}", order.trial,
                      job.slot.attempt, other, order.attempt, name));
    }
  }
  if (jobs_.at(name).slot.trial != 0) {
    figures_.mistakes.insert(fmt::format("{} was busy", name));
  }
}

void VirtualCluster::assign(const std::string& name,
                            const control::Assign& order) {
  check_lease(name, order);
  Slot& slot = jobs_.at(name).slot;
  const bool cold = slot.warm != order.trial;
  slot.trial = order.trial;
  slot.attempt = order.attempt;
  slot.point = order.point;
  slot.seed = order.seed;
  slot.step = order.resume_step;
  slot.target = order.target;
  slot.ends = -1;
  slot.starting = cold;
  if (!cold) return next_step(name);
  at(now() + options_.start,
     [this, name, trial = order.trial, attempt = order.attempt] {
       if (!is_here(name)) return;
       Slot& later = jobs_.at(name).slot;
       if (later.trial != trial || later.attempt != attempt) return;
       later.starting = false;
       next_step(name);
     });
}

void VirtualCluster::next_step(const std::string& name) {
  Job& job = jobs_.at(name);
  Slot& slot = job.slot;
  if (slot.step >= slot.target) return;
  slot.began = now();
  slot.ends = now() + step_seconds(job.node, now());
  at(slot.ends,
     [this, name, trial = slot.trial, attempt = slot.attempt,
      step = slot.step + 1] { step_done(name, trial, attempt, step); });
}

void VirtualCluster::step_done(const std::string& name, TrialId trial,
                               Attempt attempt, int step) {
  if (!is_here(name)) return;
  Slot& slot = jobs_.at(name).slot;
  if (slot.trial != trial || slot.attempt != attempt || slot.step + 1 != step) {
    return;
  }
  const double took = now() - slot.began;
  if (counted_.emplace(trial, step).second) figures_.useful_seconds += took;
  slot.step = step;
  slot.ends = -1;
  control::Report report{
      .slot = 0, .trial = trial, .attempt = attempt, .checkpointed = true};
  report.report.step = step;
  report.report.metrics = {{metric_, objective_(slot.point, step, slot.seed)}};
  report.report.seconds = took;
  say(name, std::move(report));
  next_step(name);
}

}  // namespace dtune
