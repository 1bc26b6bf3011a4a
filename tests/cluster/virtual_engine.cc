// The engine of a cluster in virtual time: its queue, its nodes and their speeds.
#include <algorithm>
#include <cmath>
#include <utility>

#include "cluster/virtual_cluster.h"
#include <fmt/format.h>

#include "dtune/speed/speed_traces.h"

namespace dtune {
namespace {

constexpr double kRound = 10;     // seconds that a value of a trace stands for
constexpr size_t kRounds = 1000;  // of a trace; then it begins anew
constexpr double kLeastSpeed = 0.02;
constexpr double kCommand = 0.2;  // of the engine

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

void VirtualCluster::open_nodes() {
  for (int node = 0; node < options_.nodes; ++node) {
    traces_.push_back(trace_of(options_, node));
    free_nodes_.insert(node);
  }
  if (options_.queue) return;
  for (int node = 0; node < options_.nodes; ++node) submit();
}

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

}  // namespace dtune
