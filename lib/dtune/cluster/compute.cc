#include "dtune/cluster/compute.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace dtune {
namespace {

double seconds_since(MonoTime begin) {
  return to_seconds(system_clock().now() - begin);
}

}  // namespace

Compute::Compute(const WorkerOptions& options, RunnerFactory make_runner,
                 std::function<void()> wake)
    : options_(options),
      make_runner_(std::move(make_runner)),
      wake_(std::move(wake)),
      files_({.keys = options.keys,
              .cache = options.cache,
              .slot = options.slot}) {
  warm_.set_limits(options_.warm_bytes, 0);
  thread_ = std::thread([this] { run(); });
}

Compute::~Compute() {
  {
    const std::lock_guard lock(mutex_);
    shutdown_ = true;
    stop_ = true;
    drop_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

bool Compute::released(const Order& order) const {
  const auto ours = [this](const auto& o) {
    return o.trial == current_trial_ && o.attempt == current_attempt_;
  };
  if (const auto* pause = std::get_if<control::Pause>(&order))
    return ours(*pause);
  if (const auto* cut = std::get_if<control::Cut>(&order)) return ours(*cut);
  // A new lease or a new coordinator ends what runs.
  return !std::holds_alternative<control::Extend>(order);
}

void Compute::post(Order order) {
  {
    const std::lock_guard lock(mutex_);
    if (released(order)) {
      stop_ = true;
      if (!std::holds_alternative<control::Pause>(order)) drop_ = true;
    }
    orders_.push_back(std::move(order));
  }
  ready_.notify_one();
}

void Compute::acknowledged(const control::Ack& ack) {
  const std::lock_guard lock(mutex_);
  // Reports are committed in order, so what is meant is in front.
  const auto covered = [&ack](const control::Report& r) {
    return r.trial == ack.trial && r.attempt == ack.attempt &&
           r.report.step <= ack.step;
  };
  while (!unacknowledged_.empty() && covered(unacknowledged_.front())) {
    unacknowledged_.pop_front();
  }
  if (unacknowledged_.empty() || unacknowledged_.front().trial == ack.trial) {
    return;
  }
  std::erase_if(unacknowledged_, covered);
}

std::vector<control::Message> Compute::take_messages() {
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

std::vector<control::Report> Compute::unacknowledged() {
  const std::lock_guard lock(mutex_);
  return {unacknowledged_.begin(), unacknowledged_.end()};
}

control::Progress Compute::progress() {
  const std::lock_guard lock(mutex_);
  control::Progress progress;
  progress.slot = options_.slot;
  progress.trial = current_trial_;
  progress.attempt = current_attempt_;
  progress.phase = phase_;
  if (session_ == nullptr || progress.phase != kTrainingPhase) return progress;
  const StepProgress step = session_->progress();
  progress.activity = step.activity;
  progress.fraction = step.fraction;
  progress.samples_per_second = step.samples_per_second;
  progress.together = step.together;
  if (step.fraction <= 0 && last_step_seconds_ > 0) {
    progress.fraction =
        std::min(0.99, seconds_since(step_began_) / last_step_seconds_);
  }
  return progress;
}

void Compute::run() {
  std::deque<Order> orders;
  while (next_orders(orders)) {
    for (Order& order : orders) {
      try {
        execute(order);
      } catch (...) {
        fail(std::current_exception());
      }
    }
    orders.clear();
    if (!active_ || session_->steps_done() >= target_) continue;
    try {
      step();
    } catch (const StepStopped&) {
      // The order that stopped it comes next.
    } catch (...) {
      fail(std::current_exception());
    }
  }
  set_session(nullptr);
  warm_.clear();
}

// Waits until there is something to do; false: the end.
bool Compute::next_orders(std::deque<Order>& orders) {
  std::unique_lock lock(mutex_);
  const bool has_step = active_ && session_->steps_done() < target_;
  if (!has_step) {
    phase_ = active_ ? "waiting" : "idle";
    ready_.wait(lock, [this] { return shutdown_ || !orders_.empty(); });
  }
  orders.swap(orders_);
  stop_ = shutdown_;
  drop_ = shutdown_;
  return !shutdown_;
}

void Compute::execute(Order& order) {
  if (auto* welcome = std::get_if<control::Welcome>(&order)) {
    const bool same = welcome->session == study_.session;
    study_ = std::move(*welcome);
    warm_.set_limits(options_.warm_bytes, study_.warm_trials);
    files_.welcome(study_);
    if (same) return;
    if (active_) leave(lease_.trial, lease_.attempt, false);
    warm_.clear();
    runner_.reset();  // the study may be another
    const std::lock_guard lock(mutex_);
    unacknowledged_.clear();
  } else if (auto* assign = std::get_if<control::Assign>(&order)) {
    start(*assign);
  } else if (auto* extend = std::get_if<control::Extend>(&order)) {
    if (active_ && extend->trial == lease_.trial &&
        extend->attempt == lease_.attempt) {
      target_ = std::max(target_, std::min(extend->target, lease_.horizon));
    }
  } else if (auto* pause = std::get_if<control::Pause>(&order)) {
    leave(pause->trial, pause->attempt, true);
  } else if (auto* cut = std::get_if<control::Cut>(&order)) {
    leave(cut->trial, cut->attempt, false);
  }
}

void Compute::end(control::Ended ended) {
  ended.slot = options_.slot;
  active_ = false;
  {
    const std::lock_guard lock(mutex_);
    current_trial_ = 0;
    current_attempt_ = 0;
    phase_ = "idle";
  }
  send(std::move(ended));
}

void Compute::send(control::Message message) {
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
  }
  wake_();
}

void Compute::set_session(std::unique_ptr<TrialSession> session) {
  {
    const std::lock_guard lock(mutex_);
    std::swap(session, session_);
  }
  // The old one ends outside the lock: it may take its time.
}

void Compute::set_phase(const char* phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

}  // namespace dtune
