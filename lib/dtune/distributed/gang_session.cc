#include "dtune/distributed/gang_session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/members.h"
#include "dtune/train/device.h"
#include "dtune/train/failure.h"

namespace dtune {
namespace {

using gang::contains;

int64_t samples_of(const TrialAssignment& assignment,
                   const PreparedData& data) {
  const int64_t more =
      trains_on_validation(assignment) ? data.count(Split::validation) : 0;
  return data.count(Split::train) + more;
}

// Who leads after a regroup, until the next go: the first that lags not.
int lead_of(const gang::Regroup& order) {
  for (const int member : order.members) {
    if (!contains(order.targets, member)) return member;
  }
  return order.members.empty() ? -1 : order.members.front();
}

}  // namespace

GangSession::GangSession(TrialAssignment assignment,
                         std::shared_ptr<const PreparedData> data)
    : assignment_(std::move(assignment)),
      data_(std::move(data)),
      where_(fmt::format("trial {}", assignment_.trial)),
      normalization_(
          normalization_of(*data_, assignment_.recipe.data.normalize)),
      device_(find_device(assignment_.recipe.train.device)),
      epoch_samples_(samples_of(assignment_, *data_)),
      link_((check_splits(assignment_, *data_), assignment_.seat.value())) {
  plan_ = plan_steps(assignment_, *data_, epoch_samples_);
  if (!trains_on_validation(assignment_) &&
      data_->count(Split::validation) > 0) {
    answers_.emplace(EvaluationBatches(
        BatchSource(data_, {Split::validation}, normalization_),
        data_->classes(), device_));
  }
}

void GangSession::start() {
  if (assignment_.resume_step > 0) resume();
  commit_.take(state());
}

// A member that comes later than its gang may find a later checkpoint.
void GangSession::resume() {
  StepReport report = load();
  const int known = assignment_.resume_step;
  if (report.step < known) {
    throw Error(
        ErrorKind::data,
        fmt::format("{}: the checkpoint cannot be used: it holds step {}, not "
                    "{} (the trial has to start again)",
                    assignment_.checkpoint.string(), report.step, known));
  }
  last_ = report.metrics;
  steps_ = report.step;
  if (report.step == known + 1) {
    steps_ = known;
    unheard_ = std::move(report);
  }
}

StepReport GangSession::load() {
  TrainingState own = state();
  StepReport report =
      load_checkpoint(assignment_.checkpoint, owner_of(assignment_), own);
  set_progress(own.position, own.updates);
  return report;
}

std::optional<TrainingState> GangSession::gather(int lead) {
  if (member() != lead) return std::nullopt;
  return state();
}

gang::Begin GangSession::begin_of(int step) {
  const TrainingState own = state();
  gang::Begin begin;
  begin.step = step;
  begin.updates = own.updates;
  begin.position = own.position;
  begin.end = plan_.end_of(step);
  begin.epoch_samples = epoch_samples_;
  begin.batch_size = assignment_.recipe.train.batch_size;
  begin.evaluation_batches = answers_ ? answers_->batches() : 0;
  return begin;
}

void GangSession::joined(const gang::Regroup& /*order*/) {}

void GangSession::settle(const std::vector<int>& /*who*/) {}

void GangSession::note_position(int64_t position) {
  const auto done = static_cast<double>(position - first_);
  const auto all = static_cast<double>(plan_.end_of(step()) - first_);
  const double seconds = to_seconds(system_clock().now() - began_);
  fraction_ = all > 0 ? std::clamp(done / all, 0.0, 1.0) : 1;
  rate_ = seconds > 0 ? done / seconds : 0;
}

StepReport GangSession::run_step(const std::atomic<bool>& stop) {
  if (unheard_) {
    ++steps_;
    return *std::exchange(unheard_, std::nullopt);
  }
  return as_step_failure(where_, steps_, [&] { return run_until_done(stop); });
}

// Whatever ends a step early, peers must not wait for this member.
StepReport GangSession::run_until_done(const std::atomic<bool>& stop) {
  try {
    return train_step(stop);
  } catch (const GangLost& lost) {
    abandon();
    link_.leave_groups();
    throw TrialFailure(Reason::lease_lapsed, lost.what());
  } catch (...) {
    abandon();
    link_.leave_groups();
    client().leave_step();
    client().set_phase("has left the step");
    // Its peers were stopped a moment earlier: what is left of the gang may be
    // too little, which is no failure.
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    throw;
  }
}

void GangSession::put_commit() {
  TrainingState own = state();
  commit_.put(own);
  set_progress(own.position, own.updates);
}

void GangSession::restore() {
  put_commit();
  broken_off_ = false;
}

StepReport GangSession::train_step(const std::atomic<bool>& stop) {
  use(computing_of(assignment_));
  if (broken_off_) restore();
  broken_off_ = true;
  began_ = system_clock().now();
  totals_ = {};
  times = {};
  if (answers_) answers_->clear();
  first_ = state().position;
  note_position(first_);
  client().set_phase("waiting for the gang");
  client().begin(begin_of(step()));
  gang::Order order = link_.wait(stop);
  while (true) {
    const auto* go = std::get_if<gang::Go>(&order);
    if (go != nullptr && go->last) return finish(*go);
    order = take(order, stop);
  }
}

// What an order asks for; returns the next one.
gang::Order GangSession::take(const gang::Order& order,
                              const std::atomic<bool>& stop) {
  try {
    const gang::Work* work = accept(order, stop);
    round_ = work->round;
    gang::Order next = perform(*work, stop);
    const auto* go = std::get_if<gang::Go>(&next);
    if (go != nullptr && !go->last) after_go(*work, *go);
    return next;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::comm) throw;
    return fail(error, stop);
  }
}

const gang::Work* GangSession::accept(const gang::Order& order,
                                      const std::atomic<bool>& stop) {
  if (const auto* go = std::get_if<gang::Go>(&order)) return &go->next;
  abandon();
  if (const auto* closed = std::get_if<gang::Closed>(&order)) {
    throw TrialFailure(Reason::lease_lapsed, closed->why);
  }
  if (const auto* evicted = std::get_if<gang::Evicted>(&order)) {
    throw TrialFailure(Reason::straggling, evicted->why);
  }
  if (const auto* late = std::get_if<gang::CatchUp>(&order)) {
    round_ = late->round;
    if (late->source >= 0) receive(late->source, late->patience);
    return &late->work;
  }
  const auto& regroup = std::get<gang::Regroup>(order);
  accept_regroup(regroup, stop);
  return &regroup.work;
}

void GangSession::accept_regroup(const gang::Regroup& order,
                                 const std::atomic<bool>& stop) {
  client().set_phase("regrouping", order.incarnation);
  round_ = order.work.round;
  link_.regroup(order, stop);
  steps_ = order.step - 1;  // who comes back may have missed steps
  if (order.source == member()) serve(order.targets, kDataPatience);
  if (contains(order.targets, member())) receive(order.source, kDataPatience);
  lead_ = lead_of(order);
  joined(order);
  if (order.work.phase != gang::Phase::train) settle(link_.members());
}

gang::Order GangSession::perform(const gang::Work& work,
                                 const std::atomic<bool>& stop) {
  switch (work.phase) {
    case gang::Phase::evaluate:
      return evaluate(work, stop);
    case gang::Phase::commit:
      return commit(work, stop);
    case gang::Phase::train:
      break;
  }
  return train(work, stop);
}

void GangSession::after_go(const gang::Work& work, const gang::Go& go) {
  if (go.participants.empty()) {
    throw Error(ErrorKind::comm, "gang: a round without anybody");
  }
  lead_ = go.participants.front();
  if (work.phase == gang::Phase::train) {
    totals_ += go.totals;
    note_position(work.position + go.totals.samples);
    if (!go.last && go.next.phase != gang::Phase::train) {
      settle(go.participants);
    }
  }
  if (go.source == member()) serve(go.targets, go.patience);
}

void GangSession::serve(const std::vector<int>& targets, Duration patience) {
  const TrainingState own = state();
  const MemberProgress progress{.step = step(), .totals = totals_};
  for (const int target : targets) {
    client().set_phase("sending state to member", target);
    send_state(link_.everybody(), link_.rank_of(target), own, progress,
               patience);
  }
}

void GangSession::receive(int source, Duration patience) {
  client().set_phase("receiving state from member", source);
  TrainingState own = state();
  MemberProgress progress;
  try {
    progress =
        receive_state(link_.everybody(), link_.rank_of(source), own, patience);
  } catch (const Error&) {
    // Half of what was received and half of its own: nobody may go on from it.
    put_commit();
    totals_ = {};
    throw;
  }
  set_progress(own.position, own.updates);
  totals_ = progress.totals;
  steps_ = progress.step - 1;
  note_position(own.position);
}

// Peers that wait for this member find out at once, since its groups are gone.
gang::Order GangSession::fail(const Error& error,
                              const std::atomic<bool>& stop) {
  abandon();
  link_.leave_groups();
  client().set_phase("waiting to regroup");
  client().failed({.round = round_,
                   .incarnation = link_.incarnation(),
                   .updates = state().updates,
                   .what = error.what()});
  while (true) {
    gang::Order order = link_.wait(stop);
    const auto* go = std::get_if<gang::Go>(&order);
    if (go == nullptr || go->last) return order;  // others may have ended it
  }
}

}  // namespace dtune
