#include "cluster/virtual_cluster.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <poll.h>

#include "dtune/base/error.h"
#include "dtune/speed/speed_traces.h"

namespace dtune {
namespace {

constexpr double kRound = 10;     // seconds that a value of a trace stands for
constexpr size_t kRounds = 1000;  // of a trace; then it begins anew
constexpr double kLeastSpeed = 0.02;
// Messages come at multiples of this, so that a turn of the coordinator hears
// several.
constexpr double kLatency = 0.01;
constexpr double kCommand = 0.2;  // of the engine

double processor_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

bool is_notified(const Wakeup& wakeup) {
  pollfd entry{wakeup.descriptor(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// A node's speed: its disturbances by a trace, and what it is by itself.
std::vector<double> trace_of(const VirtualClusterOptions& options, int node) {
  if (!options.stragglers) return {1.0};
  const uint64_t seed = mix_seed({options.seed, uint64_t(node)});
  const auto kind = kSlownesses[size_t(node) % kSlownesses.size()];
  std::vector<double> trace =
      options.traces.empty()
          ? make_speed_trace(kind, kRounds, seed)
          : options.traces[size_t(node) % options.traces.size()];
  const bool slow = options.slow_nodes > 0 &&
                    node % options.slow_nodes == options.slow_nodes / 2;
  for (double& speed : trace) {
    speed = std::max(kLeastSpeed, slow ? speed / 4 : speed);
  }
  return trace;
}

}  // namespace

VirtualCluster::VirtualCluster(VirtualClusterOptions options,
                               std::string study_id, std::string metric,
                               Objective objective)
    : options_(std::move(options)),
      study_id_(std::move(study_id)),
      metric_(std::move(metric)),
      objective_(std::move(objective)),
      rng_(options_.seed),
      elastic_({.name = "virtual",
                .most = options_.nodes,
                .most_pending = options_.pending},
               clock_) {
  for (int node = 0; node < options_.nodes; ++node) {
    traces_.push_back(trace_of(options_, node));
    free_nodes_.insert(node);
  }
  if (options_.queue) return;
  for (int node = 0; node < options_.nodes; ++node) submit();
}

VirtualCluster::~VirtualCluster() = default;

double VirtualCluster::now() const {
  return to_seconds(clock_.now().time_since_epoch());
}

void VirtualCluster::at(double when, std::function<void()> act) {
  const double tick = std::ceil(when / kLatency) * kLatency;
  events_.push({std::max(tick, now()), ++numbers_, std::move(act)});
}

void VirtualCluster::advance_to(double when) {
  const double passed = when - now();
  if (passed > 0) clock_.advance(from_seconds(passed));
}

// What the coordinator has computed since the last poll.
void VirtualCluster::account() {
  if (processor_ < 0) return;
  const double spent = processor_seconds() - processor_;
  figures_.processor_seconds += spent;
  if (options_.charged) clock_.advance(from_seconds(spent));
}

void VirtualCluster::run_due() {
  while (!events_.empty() && events_.top().when <= now() + 1e-9) {
    const auto act = events_.top().act;
    events_.pop();
    act();
  }
}

void VirtualCluster::poll(Duration patience, Wakeup& wakeup,
                          const std::function<void(Frames)>& handle) {
  account();
  if (is_notified(wakeup)) {
    wakeup.drain();
  } else {
    const double until = now() + to_seconds(patience);
    advance_to(events_.empty() ? until : std::min(until, events_.top().when));
  }
  run_due();
  processor_ = processor_seconds();
  for (Frames& frames : std::exchange(inbox_, {})) {
    const auto second = static_cast<int64_t>(now());
    if (std::exchange(second_, second) != second) in_second_ = 0;
    figures_.received += std::ssize(frames) - 1;
    in_second_ += std::ssize(frames) - 1;
    figures_.busiest_second = std::max(figures_.busiest_second, in_second_);
    handle(std::move(frames));
  }
}

void VirtualCluster::say(const std::string& job, control::Message message) {
  inbox_.push_back({job, encode(std::move(message))});
}

bool VirtualCluster::send(Frames frames) {
  const std::string name = frames.front();
  if (!is_here(name)) return false;
  for (size_t i = 1; i < frames.size(); ++i) {
    ++figures_.sent;
    obey(name, decode(frames[i]));
    if (!is_here(name)) break;
  }
  return true;
}

// The engine.

std::string VirtualCluster::submit() {
  std::string name = fmt::format("job{}", ++figures_.jobs);
  Job job;
  job.submitted = now();
  job.eligible =
      options_.queue ? now() - options_.wait * std::log(1 - rng_.uniform()) : 0;
  at(job.eligible, [this] { start_jobs(); });
  jobs_[name] = std::move(job);
  return name;
}

// Whose turn has come, in the order of submission, as nodes are free.
void VirtualCluster::start_jobs() {
  std::vector<std::pair<double, std::string>> waiting;
  for (const auto& [name, job] : jobs_) {
    if (!job.running && job.eligible <= now() + 1e-9) {
      waiting.emplace_back(job.submitted, name);
    }
  }
  std::sort(waiting.begin(), waiting.end());
  for (const auto& [when, name] : waiting) {
    if (free_nodes_.empty()) return;
    begin(name);
  }
}

void VirtualCluster::begin(const std::string& name) {
  Job& job = jobs_.at(name);
  // Any node: which one is not the study's to choose.
  auto node = free_nodes_.begin();
  std::advance(node, static_cast<std::ptrdiff_t>(
                         rng_.below(uint64_t(free_nodes_.size()))));
  job.node = *node;
  free_nodes_.erase(node);
  job.running = true;
  job.started = now();
  figures_.waited_seconds += now() - job.submitted;
  at(now() + options_.boot, [this, name] { hello(name); });
  if (options_.wall > 0) {
    job.ends = now() + options_.wall;
    at(job.ends, [this, name] {
      if (!jobs_.contains(name)) return;
      ++figures_.timed_out;
      end(name);
    });
  }
  if (options_.preempted > 0) {
    const double when =
        now() - options_.preempted * std::log(1 - rng_.uniform());
    const bool warned = rng_.uniform() < 0.5;
    at(when, [this, name, warned] { preempt(name, warned); });
  }
}

void VirtualCluster::preempt(const std::string& name, bool warned) {
  if (!jobs_.contains(name)) return;
  ++figures_.preempted;
  if (warned && is_here(name)) {
    leave(name, "preempted");
  } else {
    end(name);
  }
}

// The node is free; the coordinator learns it from the agent, or from silence.
void VirtualCluster::end(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  const Job& job = found->second;
  if (job.running) {
    figures_.node_seconds += now() - job.started;
    free_nodes_.insert(job.node);
  }
  jobs_.erase(found);
  at(now(), [this] { start_jobs(); });
}

// Half of the time an agent is warned: by its engine, or since it has no trial.
void VirtualCluster::leave(const std::string& name, const std::string& why) {
  say(name, control::Bye{false, why});
  end(name);
}

bool VirtualCluster::is_here(const std::string& name) const {
  const auto job = jobs_.find(name);
  return job != jobs_.end() && job->second.here;
}

void VirtualCluster::take_demand(const Demand& demand) {
  elastic_.set_demand(demand);
}

void VirtualCluster::ensure_agents() {
  if (!options_.queue) return;
  if (action_ && now() < action_ends_) return;
  using Action = ElasticJobs::Action;
  if (const auto done = std::exchange(action_, std::nullopt)) {
    if (*done == Action::submit) {
      elastic_.submitted(submit());
    } else if (*done == Action::list) {
      std::vector<ListedJob> listed;
      for (const auto& [name, job] : jobs_) {
        listed.push_back({name, !job.running, job.running ? "" : "Priority"});
      }
      elastic_.listed(listed);
    } else {
      for (const auto& [name, job] : std::map(jobs_)) end(name);
      elastic_.cancelled();
    }
  }
  elastic_.take_notices();
  if (const auto next = elastic_.next()) {
    action_ = next;
    action_ends_ = now() + kCommand;
    elastic_.begun(*next);
  }
}

void VirtualCluster::close() {
  elastic_.close();
  while (options_.queue && !elastic_.is_cancelled()) {
    ensure_agents();
    advance_to(now() + kCommand);
    run_due();
  }
  if (!options_.queue) {
    for (const auto& [name, job] : std::map(jobs_)) end(name);
  }
  figures_.left_over = static_cast<int>(jobs_.size());
}

VirtualClusterFigures VirtualCluster::figures() const { return figures_; }

// The agents.

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

double VirtualCluster::step_seconds(int node, double begins) const {
  const std::vector<double>& trace = traces_[size_t(node)];
  double work = options_.step;
  double time = begins;
  while (true) {
    const double round = std::floor(time / kRound);
    const double speed = trace[size_t(round) % trace.size()];
    const double rest = (round + 1) * kRound - time;
    if (rest * speed >= work) return time + work / speed - begins;
    work -= rest * speed;
    time = (round + 1) * kRound;
  }
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
