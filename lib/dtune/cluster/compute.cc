#include "dtune/cluster/compute.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "dtune/cluster/command_runner.h"
#include "dtune/cluster/sidecar.h"

namespace dtune {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return to_seconds(std::chrono::steady_clock::now() - begin);
}

// A fresh start: what an earlier attempt left must not be taken for ours.
void forget_checkpoint(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  std::filesystem::remove(checkpoint, ignored);
  std::filesystem::remove(sidecar_path(checkpoint), ignored);
}

// The last step up to which the database (`known`) and the sidecar together
// know every report.
int known_steps(int known, const std::vector<wire::Report>& kept) {
  for (const wire::Report& report : kept) {
    if (report.report.step == known + 1) ++known;
  }
  return known;
}

}  // namespace

Compute::Compute(const WorkerOptions& options, RunnerFactory make_runner,
                 std::function<void()> wake)
    : options_(options),
      make_runner_(std::move(make_runner)),
      wake_(std::move(wake)) {
  warm_.set_limits(options_.warm_bytes, 0);
  thread_ = std::thread([this] { run(); });
}

Compute::~Compute() {
  {
    const std::lock_guard lock(mutex_);
    shutdown_ = true;
    stop_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

bool Compute::released(const Order& order) const {
  const auto ours = [this](const auto& o) {
    return o.trial == current_trial_ && o.attempt == current_attempt_;
  };
  if (const auto* pause = std::get_if<wire::Pause>(&order)) return ours(*pause);
  if (const auto* cut = std::get_if<wire::Cut>(&order)) return ours(*cut);
  // A new lease or a new coordinator ends what runs.
  return !std::holds_alternative<wire::Extend>(order);
}

void Compute::post(Order order) {
  {
    const std::lock_guard lock(mutex_);
    if (released(order)) stop_ = true;
    orders_.push_back(std::move(order));
  }
  ready_.notify_one();
}

void Compute::acknowledged(const wire::Ack& ack) {
  const std::lock_guard lock(mutex_);
  // Reports are committed in order, so what is meant is in front.
  const auto covered = [&ack](const wire::Report& r) {
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

std::vector<wire::Message> Compute::take_messages() {
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

std::vector<wire::Report> Compute::unacknowledged() {
  const std::lock_guard lock(mutex_);
  return {unacknowledged_.begin(), unacknowledged_.end()};
}

wire::Progress Compute::progress() {
  const std::lock_guard lock(mutex_);
  wire::Progress progress;
  progress.slot = options_.slot;
  progress.trial = current_trial_;
  progress.attempt = current_attempt_;
  progress.phase = phase_;
  if (session_ == nullptr || progress.phase != "training") return progress;
  const StepProgress step = session_->progress();
  progress.fraction = step.fraction;
  progress.samples_per_second = step.samples_per_second;
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
  return !shutdown_;
}

void Compute::execute(Order& order) {
  if (auto* welcome = std::get_if<wire::Welcome>(&order)) {
    const bool same = welcome->session == study_.session;
    study_ = std::move(*welcome);
    warm_.set_limits(options_.warm_bytes, study_.warm_trials);
    if (same) return;
    if (active_) leave(lease_.trial, lease_.attempt, false);
    warm_.clear();
    runner_.reset();  // the study may be another
    const std::lock_guard lock(mutex_);
    unacknowledged_.clear();
  } else if (auto* assign = std::get_if<wire::Assign>(&order)) {
    start(*assign);
  } else if (auto* extend = std::get_if<wire::Extend>(&order)) {
    if (active_ && extend->trial == lease_.trial &&
        extend->attempt == lease_.attempt) {
      target_ = std::max(target_, std::min(extend->target, lease_.horizon));
    }
  } else if (auto* pause = std::get_if<wire::Pause>(&order)) {
    leave(pause->trial, pause->attempt, true);
  } else if (auto* cut = std::get_if<wire::Cut>(&order)) {
    leave(cut->trial, cut->attempt, false);
  }
}

TrialAssignment Compute::describe(const wire::Assign& assign) {
  TrialAssignment out;
  out.study_id = study_.study_id;
  out.trial = assign.trial;
  out.attempt = assign.attempt;
  out.kind = assign.kind;
  out.point = assign.point;
  if (options_.parse_recipe) {
    TrialRecipe parsed =
        options_.parse_recipe(study_.recipe_yaml, assign.point);
    out.recipe = std::move(parsed.recipe);
    out.recipe_yaml = std::move(parsed.yaml);
  }
  out.seed = assign.seed;
  out.horizon = assign.horizon;
  out.checkpoint = assign.checkpoint;
  out.resume_step = assign.resume_step;
  out.prepared_data = study_.prepared_data;
  out.model_file = assign.model_file;
  out.threads = assign.threads;
  out.deterministic = study_.deterministic;
  return out;
}

void Compute::start(const wire::Assign& assign) {
  // The coordinator knows this slot to be free; believe it.
  if (active_) leave(lease_.trial, lease_.attempt, false);
  lease_ = assign;
  target_ = std::min(assign.target, assign.horizon);
  active_ = true;
  {
    const std::lock_guard lock(mutex_);
    current_trial_ = assign.trial;
    current_attempt_ = assign.attempt;
    phase_ = "starting";
    last_step_seconds_ = 0;
  }
  std::unique_ptr<TrialSession> session;
  // A longer training or a test on the way need a session made for it.
  if (assign.kind == TrialKind::search) {
    session = warm_.take(assign.trial, assign.attempt, assign.resume_step);
  }
  if (session == nullptr) session = open_session(assign);
  set_session(std::move(session));
  if (lease_.finish && session_->steps_done() >= lease_.horizon) finish();
}

std::unique_ptr<TrialSession> Compute::open_session(
    const wire::Assign& assign) {
  TrialAssignment assignment = describe(assign);
  if (runner_ == nullptr) runner_ = make_runner_(assignment.recipe);
  if (std::filesystem::exists(assignment.checkpoint)) {
    auto session = resume_session(assignment, assign);
    if (session != nullptr) return session;
  }
  forget_checkpoint(assignment.checkpoint);
  assignment.resume_step = 0;
  return runner_->start(assignment);
}

// Null where the checkpoint is of no use.
std::unique_ptr<TrialSession> Compute::resume_session(
    TrialAssignment assignment, const wire::Assign& assign) {
  const std::vector<wire::Report> kept =
      read_sidecar(assignment.checkpoint, study_.study_id, assign.trial);
  const int known = known_steps(assign.resume_step, kept);
  if (known == 0) return nullptr;
  assignment.resume_step = known;
  std::unique_ptr<TrialSession> session;
  try {
    session = runner_->start(assignment);
  } catch (const TrialFailure&) {
    throw;
  } catch (const Error&) {
    return nullptr;  // damaged, or of another step: train it again
  }
  if (session->steps_done() > known) return nullptr;
  for (wire::Report report : kept) {
    if (report.report.step <= assign.resume_step) continue;
    if (report.report.step > session->steps_done()) break;
    report.slot = options_.slot;
    report.attempt = assign.attempt;
    send_report(report);
  }
  return session;
}

void Compute::leave(TrialId trial, Attempt attempt, bool keep) {
  if (!active_ || lease_.trial != trial || lease_.attempt != attempt) {
    if (!keep) warm_.forget(trial);
    return;  // over already, and said so
  }
  wire::Ended ended;
  ended.trial = trial;
  ended.attempt = attempt;
  ended.steps = session_ == nullptr ? 0 : session_->steps_done();
  std::unique_ptr<TrialSession> session;
  {
    const std::lock_guard lock(mutex_);
    session = std::move(session_);
  }
  if (keep && session != nullptr && lease_.kind == TrialKind::search) {
    warm_.put(trial, attempt, std::move(session));
  }
  session.reset();
  end(std::move(ended));
}

void Compute::step() {
  {
    const std::lock_guard lock(mutex_);
    if (!orders_.empty() || shutdown_) return;  // they come first
    phase_ = "training";
    step_began_ = std::chrono::steady_clock::now();
  }
  StepReport done = session_->run_step(stop_);
  if (done.last) target_ = session_->steps_done();
  report(std::move(done));
  if (lease_.finish && session_->steps_done() >= lease_.horizon) finish();
}

void Compute::report(StepReport done) {
  wire::Report message;
  message.slot = options_.slot;
  message.trial = lease_.trial;
  message.attempt = lease_.attempt;
  message.checkpointed = std::filesystem::exists(lease_.checkpoint);
  message.report = std::move(done);
  {
    const std::lock_guard lock(mutex_);
    last_step_seconds_ = message.report.seconds;
  }
  if (message.checkpointed) {
    std::vector<wire::Report> kept = unacknowledged();
    std::erase_if(kept, [this](const wire::Report& r) {
      return r.trial != lease_.trial;
    });
    kept.push_back(message);
    try {
      write_sidecar(lease_.checkpoint, study_.study_id, kept);
    } catch (const Error&) {
      // A full disk: the report itself is on its way, nothing is lost yet.
    }
  }
  send_report(message);
}

void Compute::send_report(const wire::Report& report) {
  {
    const std::lock_guard lock(mutex_);
    unacknowledged_.push_back(report);
  }
  send(report);
}

void Compute::finish() {
  set_phase("testing");
  wire::Ended ended;
  ended.trial = lease_.trial;
  ended.attempt = lease_.attempt;
  ended.outcome = wire::Outcome::complete;
  ended.metrics = session_->finish_final();
  ended.steps = session_->steps_done();
  set_session(nullptr);
  end(std::move(ended));
}

void Compute::fail(std::exception_ptr cause) {
  wire::Ended ended;
  ended.trial = lease_.trial;
  ended.attempt = lease_.attempt;
  ended.outcome = wire::Outcome::failed;
  ended.reason = Reason::crashed;
  try {
    std::rethrow_exception(std::move(cause));
  } catch (const CommandExit& e) {
    ended.reason = e.reason();
    ended.detail = e.what();
    ended.exit_code = e.exit_code();
    ended.signal = e.signal();
  } catch (const TrialFailure& e) {
    ended.reason = e.reason();
    ended.detail = e.what();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::temporary) {
      ended.outcome = wire::Outcome::temporary;
    }
    ended.detail = e.what();
  } catch (const std::bad_alloc&) {
    ended.reason = Reason::out_of_memory;
    ended.detail =
        "out of memory (a smaller batch or model, or a larger "
        "resources.memory_mb)";
  } catch (const StepStopped&) {
    ended.outcome = wire::Outcome::stopped;
  } catch (const std::exception& e) {
    ended.detail = e.what();
  }
  if (!active_) return;
  if (session_ != nullptr) ended.steps = session_->steps_done();
  set_session(nullptr);
  end(std::move(ended));
}

void Compute::end(wire::Ended ended) {
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

void Compute::send(wire::Message message) {
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
