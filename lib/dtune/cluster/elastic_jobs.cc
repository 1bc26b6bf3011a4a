#include "dtune/cluster/elastic_jobs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace dtune {
namespace {

constexpr Duration kLongestWait = std::chrono::seconds(60);
constexpr int kMissesToEnd = 2;
constexpr int kMostStillborn = 5;

}  // namespace

ElasticJobs::ElasticJobs(ElasticOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

void ElasticJobs::set_demand(const Demand& demand) {
  demand_ = demand;
  for (auto& [name, job] : jobs_) job.here = false;
  for (const PresentAgent& agent : demand.agents) {
    const auto job = jobs_.find(agent.job);
    if (job == jobs_.end()) continue;
    job->second.here = job->second.came = true;
    job->second.ends = agent.ends;
    job->second.pending = false;
    job->second.missing = 0;
    slots_seen_ = agent.slots;
    stillborn_ = 0;
  }
}

std::optional<ElasticJobs::Action> ElasticJobs::next() {
  if (closed_) {
    return cancelled_ ? std::nullopt : std::optional(Action::cancel);
  }
  if (given_up_) return std::nullopt;
  const MonoTime now = clock_.now();
  if (now >= next_listing_) {
    next_listing_ = now + options_.listing_interval;
    return Action::list;
  }
  if (now >= next_submit_ && wants_more()) {
    next_submit_ = now + options_.submit_interval;
    return Action::submit;
  }
  return std::nullopt;
}

void ElasticJobs::begun(Action action) {
  if (action == Action::submit) ++unnamed_;
}

// An agent brings as many slots as those before it did.
int ElasticJobs::slots_of_job() const { return std::max(slots_seen_, 1); }

int ElasticJobs::pending() const {
  return unnamed_ + static_cast<int>(std::count_if(
                        jobs_.begin(), jobs_.end(),
                        [](const auto& one) { return one.second.pending; }));
}

// Jobs that have started and whose agents are not here yet count as if they
// were: they come within seconds.
bool ElasticJobs::wants_more() const {
  const auto jobs =
      unnamed_ + std::count_if(jobs_.begin(), jobs_.end(), [](const auto& one) {
        return !one.second.ends;
      });
  if (jobs >= options_.most || pending() >= options_.most_pending) return false;
  int64_t slots = 0;
  for (const PresentAgent& agent : demand_.agents) {
    if (!agent.ends) slots += agent.slots;
  }
  const auto coming =
      unnamed_ + std::count_if(jobs_.begin(), jobs_.end(), [](const auto& one) {
        return !one.second.came;
      });
  return demand_.slots > slots + coming * slots_of_job();
}

void ElasticJobs::ended_well(Action action) {
  if (action != failed_action_) return;
  failures_ = 0;
  if (problem_.empty()) return;
  say(fmt::format("{}: answers again", options_.name));
  problem_.clear();
}

void ElasticJobs::submitted(const std::string& job) {
  --unnamed_;
  ended_well(Action::submit);
  if (job.empty()) return;
  jobs_.emplace(job, Job{});
  say(fmt::format("{}: asked for an agent: job {}", options_.name, job));
}

void ElasticJobs::listed(const std::vector<ListedJob>& jobs) {
  ended_well(Action::list);
  for (auto& [name, job] : jobs_) ++job.missing;
  for (const ListedJob& one : jobs) {
    const bool known = jobs_.contains(one.job);
    Job& job = jobs_[one.job];
    job.missing = 0;
    job.pending = one.pending && !job.here;
    const std::string reason = one.pending ? one.reason : "";
    if (!known) {
      say(fmt::format("{}: job {} of this study is in the queue already",
                      options_.name, one.job));
    }
    if (reason != job.reason && !reason.empty()) {
      say(fmt::format("{}: job {} is pending: {}", options_.name, one.job,
                      reason));
    }
    job.reason = reason;
  }
  drop_ended();
}

void ElasticJobs::cancelled() {
  cancelled_ = true;
  ended_well(Action::cancel);
}

void ElasticJobs::drop_ended() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const Job& job = it->second;
    const bool over = !job.here && job.missing >= (job.came ? 1 : kMissesToEnd);
    if (over && !job.came) {
      ++stillborn_;
      say(fmt::format("{}: job {} ended before its agent came here",
                      options_.name, it->first));
    }
    it = over ? jobs_.erase(it) : std::next(it);
  }
  if (stillborn_ < kMostStillborn || given_up_) return;
  given_up_ = true;
  problem_ = fmt::format(
      "{}: {} jobs in a row ended before their agents came here (see what they "
      "wrote, beside the study)",
      options_.name, stillborn_);
  say(problem_);
}

// The same message is not repeated.
void ElasticJobs::failed(Action action, const LaunchFailure& failure) {
  if (action == Action::submit) --unnamed_;
  if (action == Action::cancel) cancelled_ = true;
  if (failure.text != problem_) say(failure.text);
  problem_ = failure.text;
  failed_action_ = action;
  if (failure.lasts) given_up_ = true;
  const int doublings = std::min(failures_++, 10);
  const Duration wait =
      std::min(options_.submit_interval * (1 << doublings), kLongestWait);
  next_submit_ = clock_.now() + std::max(wait, options_.submit_interval);
}

// A submission may have come through: a listing finds it.
void ElasticJobs::unanswered(Action action) {
  failed(action,
         {fmt::format("{}: no answer within {} (trying on)", options_.name,
                      format_duration(options_.command_timeout)),
          false});
}

void ElasticJobs::say(const std::string& text) {
  if (!text.empty()) notices_.push_back(text);
}

std::vector<std::string> ElasticJobs::take_notices() {
  return std::exchange(notices_, {});
}

}  // namespace dtune
