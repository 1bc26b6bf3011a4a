#include "dtune/cluster/elastic_launcher.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace dtune {
namespace {

constexpr Duration kLongestWait = std::chrono::seconds(60);
constexpr int kMissesToEnd = 2;
constexpr int kMostStillborn = 5;
constexpr size_t kMostWords = size_t{1} << 20;  // bytes of a command

}  // namespace

ElasticLauncher::ElasticLauncher(ElasticOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

void ElasticLauncher::set_demand(const Demand& demand) {
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

void ElasticLauncher::ensure() {
  if (child_) return run_command();
  if (closed_) {
    if (!cancelled_) start(Action::cancel);
    return;
  }
  if (given_up_) return;
  const MonoTime now = clock_.now();
  if (now >= next_listing_) {
    next_listing_ = now + options_.listing_interval;
    start(Action::list);
  } else if (now >= next_submit_ && wants_more()) {
    next_submit_ = now + options_.submit_interval;
    start(Action::submit);
  }
}

// An agent brings as many slots as those before it did.
int ElasticLauncher::slots_of_job() const { return std::max(slots_seen_, 1); }

int ElasticLauncher::pending() const {
  return unnamed_ + static_cast<int>(std::count_if(
                        jobs_.begin(), jobs_.end(),
                        [](const auto& one) { return one.second.pending; }));
}

// Jobs that have started and whose agents are not here yet count as if they
// were: they come within seconds.
bool ElasticLauncher::wants_more() const {
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

void ElasticLauncher::start(Action action) {
  const EngineCommand engine = command(action);
  action_ = action;
  words_.clear();
  began_ = clock_.now();
  try {
    child_ = std::make_unique<Child>(SpawnOptions{
        .argv = engine.argv, .merge = true, .feed = !engine.input.empty()});
    if (!engine.input.empty()) {
      child_->feed(engine.input);
      child_->stop_feeding();
    }
    if (action == Action::submit) ++unnamed_;
  } catch (const Error& e) {
    cancelled_ = cancelled_ || closed_;
    on_failure({fmt::format("{}: {}", options_.name, e.what()),
                e.kind() == ErrorKind::config});
  }
}

void ElasticLauncher::run_command() {
  std::string more;
  child_->read_out(more);
  if (words_.size() < kMostWords) words_ += more;
  auto status = child_->status();
  if (!status && clock_.now() - began_ > options_.command_timeout) {
    child_->signal_group(SIGKILL);
    child_.reset();
    if (action_ == Action::submit) --unnamed_;  // a listing finds it
    cancelled_ = cancelled_ || action_ == Action::cancel;
    on_failure(
        {fmt::format("{}: no answer within {} (trying on)", options_.name,
                     format_duration(options_.command_timeout)),
         false});
    return;
  }
  if (!status) return;
  more.clear();
  while (child_->read_out(more) && !more.empty()) {
    words_ += std::exchange(more, {});
  }
  words_ += more;
  child_.reset();
  on_end(*status);
}

void ElasticLauncher::on_end(const ExitStatus& status) {
  if (action_ == Action::submit) --unnamed_;
  if (action_ == Action::cancel) cancelled_ = true;
  if (status.exit_code != 0) {
    on_failure(explain(action_, status, words_));
    return;
  }
  if (action_ == failed_action_) failures_ = 0;
  if (!problem_.empty() && action_ == failed_action_) {
    say(fmt::format("{}: answers again", options_.name));
    problem_.clear();
  }
  if (action_ == Action::list) on_listing();
  if (action_ != Action::submit) return;
  const std::string job = submitted(words_);
  if (job.empty()) return;
  jobs_.emplace(job, Job{});
  say(fmt::format("{}: asked for an agent: job {}", options_.name, job));
}

void ElasticLauncher::on_listing() {
  for (auto& [name, job] : jobs_) ++job.missing;
  for (const ListedJob& one : listed(words_)) {
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

void ElasticLauncher::drop_ended() {
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

// The same again is no news.
void ElasticLauncher::on_failure(const LaunchFailure& failure) {
  if (failure.text != problem_) say(failure.text);
  problem_ = failure.text;
  failed_action_ = action_;
  if (failure.lasts) given_up_ = true;
  const int doublings = std::min(failures_++, 10);
  const Duration wait =
      std::min(options_.submit_interval * (1 << doublings), kLongestWait);
  next_submit_ = clock_.now() + std::max(wait, options_.submit_interval);
}

void ElasticLauncher::say(const std::string& text) {
  if (!text.empty()) notices_.push_back(text);
}

void ElasticLauncher::close() {
  if (closed_) return;
  closed_ = true;
  if (child_ && action_ != Action::submit) child_.reset();
  ensure();
}

void ElasticLauncher::finish(Duration patience) {
  close();
  constexpr Duration kTurn = std::chrono::milliseconds(20);
  for (Duration left = patience; left > kTurn && !cancelled_; left -= kTurn) {
    if (child_) child_->wait(kTurn);
    ensure();
  }
}

std::vector<std::string> ElasticLauncher::take_notices() {
  return std::exchange(notices_, {});
}

}  // namespace dtune
