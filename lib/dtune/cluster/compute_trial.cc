// The part of Compute that deals with one trial: its session, its steps, its
// end.
#include <filesystem>
#include <new>
#include <utility>

#include "dtune/cluster/command_runner.h"
#include "dtune/cluster/compute.h"
#include "dtune/cluster/sidecar.h"
#include "dtune/cluster/step_checkpoint.h"

namespace dtune {
namespace {

// A fresh start: what an earlier attempt left must not be taken for ours.
void forget_checkpoint(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  std::filesystem::remove(checkpoint, ignored);
  std::filesystem::remove(sidecar_path(checkpoint), ignored);
}

// The last step up to which the database (`known`) and the sidecar together
// know every report.
int known_steps(int known, const std::vector<control::Report>& kept) {
  for (const control::Report& report : kept) {
    if (report.report.step == known + 1) ++known;
  }
  return known;
}

}  // namespace

RankInfo Compute::rank_of(const control::Assign& assign) const {
  RankInfo rank;
  rank.gang = assign.gang;
  rank.member = assign.member;
  rank.members = assign.members;
  rank.endpoint = assign.gang_endpoint;
  rank.server_key = assign.gang_key;
  rank.address = assign.gang_address;
  rank.public_key = options_.keys.public_key;
  rank.secret_key = options_.keys.secret_key;
  return rank;
}

TrialAssignment Compute::describe(const control::Assign& assign) {
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
  travel("fetching", [this, &out] {
    out.prepared_data = files_.data(study_.prepared_data, stop_);
  });
  out.model_file = assign.model_file;
  out.origin = assign.origin;
  out.kept_step = assign.target;
  out.chosen = assign.chosen;
  out.threads = assign.threads;
  out.deterministic = study_.deterministic;
  if (!assign.gang.empty()) out.rank = rank_of(assign);
  return out;
}

void Compute::start(const control::Assign& assign) {
  // To the coordinator this slot is free; that counts.
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
  lease_ = files_.take_up(assign);
  std::unique_ptr<TrialSession> session;
  // A longer training or a test on the way need a session made for it.
  if (assign.kind == TrialKind::search) {
    session = warm_.take(assign.trial, assign.attempt, assign.resume_step);
  }
  if (session == nullptr) session = open_session(lease_);
  set_session(std::move(session));
  if (lease_.finish && session_->steps_done() >= target_) finish();
}

std::unique_ptr<TrialSession> Compute::open_session(
    const control::Assign& assign) {
  TrialAssignment assignment = describe(assign);
  if (runner_ == nullptr) runner_ = make_runner_(assignment.recipe);
  const bool starts = assignment.rank && assign.resume_step == 0;
  if (!starts) {
    travel("fetching",
           [this, &assign] { files_.fetch_checkpoint(assign, stop_); });
  }
  if (!starts && std::filesystem::exists(assignment.checkpoint)) {
    auto session = resume_session(assignment, assign);
    if (session != nullptr) return session;
  }
  // A gang's may have been written by another rank just now.
  if (!assignment.rank) forget_checkpoint(assignment.checkpoint);
  assignment.resume_step = 0;
  return runner_->start(assignment);
}

// Null where the checkpoint is of no use.
std::unique_ptr<TrialSession> Compute::resume_session(
    TrialAssignment assignment, const control::Assign& assign) {
  const std::vector<control::Report> kept =
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
  for (control::Report report : kept) {
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
  control::Ended ended;
  ended.trial = trial;
  ended.attempt = attempt;
  ended.steps = session_ == nullptr ? 0 : session_->steps_done();
  std::unique_ptr<TrialSession> session;
  {
    const std::lock_guard lock(mutex_);
    session = std::move(session_);
  }
  // A gang's session belongs to this lease: its ranks meet anew each time.
  if (keep && session != nullptr && lease_.kind == TrialKind::search &&
      lease_.gang.empty()) {
    warm_.put(trial, attempt, std::move(session));
  }
  session.reset();
  end(std::move(ended));
}

void Compute::step() {
  {
    const std::lock_guard lock(mutex_);
    if (!orders_.empty() || shutdown_) return;  // they come first
    if (!session_->is_unsaved()) phase_ = kTrainingPhase;
    step_began_ = system_clock().now();
  }
  StepReport done;
  try {
    done = session_->run_step(stop_);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::temporary || !session_->is_unsaved()) throw;
    wait_for_space();
    return;
  }
  if (done.last) target_ = session_->steps_done();
  report(std::move(done));
  if (lease_.finish && session_->steps_done() >= target_) finish();
}

// Until it is time to try again, or an order comes.
void Compute::wait_for_space() {
  std::unique_lock lock(mutex_);
  phase_ = kNoSpacePhase;
  ready_.wait_for(lock, std::chrono::seconds(1),
                  [this] { return shutdown_ || !orders_.empty(); });
}

void Compute::report(StepReport done) {
  control::Report message;
  message.slot = options_.slot;
  message.trial = lease_.trial;
  message.attempt = lease_.attempt;
  message.checkpointed = files_.shared()
                             ? std::filesystem::exists(lease_.checkpoint)
                             : files_.wrote_checkpoint(lease_);
  message.report = std::move(done);
  {
    const std::lock_guard lock(mutex_);
    last_step_seconds_ = message.report.seconds;
  }
  if (message.checkpointed) message.checkpointed = keep_checkpoint(message);
  send_report(message);
}

// Writes the sidecar, and brings both to the coordinator where its disk is
// another; false: the checkpoint has not got there.
bool Compute::keep_checkpoint(const control::Report& report) {
  // One rank's is as good as another's.
  if (files_.shared() && lease_.member != 0) return true;
  if (files_.shared()) keep_step(lease_.checkpoint, report.report.step);
  std::vector<control::Report> kept = unacknowledged();
  std::erase_if(kept, [this](const control::Report& r) {
    return r.trial != lease_.trial;
  });
  kept.push_back(report);
  try {
    write_sidecar(lease_.checkpoint, study_.study_id, kept);
  } catch (const Error&) {
    // A full disk: the report itself is on its way, nothing is lost yet.
  }
  if (files_.shared()) return true;
  bool sent = false;
  try {
    travel("sending",
           [this, &sent] { sent = files_.send_checkpoint(lease_, drop_); });
  } catch (const StepStopped&) {
    // The trial is cut: it is not needed.
  }
  return sent;
}

// What may take long without being a step: the phase says so.
void Compute::travel(const char* phase, const std::function<void()>& transfer) {
  if (study_.files_endpoint.empty()) return transfer();
  set_phase(phase);
  try {
    transfer();
  } catch (const TransferStopped&) {
    throw StepStopped();
  }
  set_phase("starting");
}

void Compute::send_report(const control::Report& report) {
  {
    const std::lock_guard lock(mutex_);
    unacknowledged_.push_back(report);
  }
  send(report);
}

void Compute::finish() {
  set_phase("testing");
  control::Ended ended;
  ended.trial = lease_.trial;
  ended.attempt = lease_.attempt;
  ended.outcome = control::Outcome::complete;
  ended.metrics = session_->finish_final();
  travel("sending", [this] { files_.send_model(lease_, drop_); });
  ended.steps = session_->steps_done();
  set_session(nullptr);
  end(std::move(ended));
}

void Compute::fail(std::exception_ptr cause) {
  control::Ended ended;
  ended.trial = lease_.trial;
  ended.attempt = lease_.attempt;
  ended.outcome = control::Outcome::failed;
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
      ended.outcome = control::Outcome::temporary;
    }
    ended.detail = e.what();
  } catch (const std::bad_alloc&) {
    ended.reason = Reason::out_of_memory;
    ended.detail =
        "out of memory (a smaller batch or model, or a larger "
        "resources.memory_mb)";
  } catch (const StepStopped&) {
    ended.outcome = control::Outcome::stopped;
  } catch (const std::exception& e) {
    ended.detail = e.what();
  }
  // The memory is that of all trials of this process, which may leave it.
  if (options_.seats > 1 && ended.reason == Reason::out_of_memory) {
    ended.reason = Reason::killed;
  }
  if (!active_) return;
  if (session_ != nullptr) ended.steps = session_->steps_done();
  set_session(nullptr);
  end(std::move(ended));
}

}  // namespace dtune
