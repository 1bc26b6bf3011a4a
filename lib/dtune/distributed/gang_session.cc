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

// Who leads after a regroup, until the next go: the first that lags not.
int leader_of(const gang::Regroup& order) {
  for (const int member : order.members) {
    if (!contains(order.targets, member)) return member;
  }
  return order.members.empty() ? -1 : order.members.front();
}

}  // namespace

GangSession::GangSession(TrialAssignment assignment,
                         std::shared_ptr<const PreparedData> data)
    : StepSession(std::move(assignment), std::move(data)),
      link_(this->assignment().rank.value()) {
  if (!trains_on_validation(this->assignment()) &&
      this->data()->count(Split::validation) > 0) {
    predictions_.emplace(EvaluationBatches(
        BatchSource(this->data(), {Split::validation}, normalization()),
        this->data()->classes(), device()));
  }
}

// A member that comes later than its gang may find a later checkpoint.
void GangSession::start() {
  if (assignment().resume_step > 0) resume(load(), /*later=*/true);
  commit_.take(state());
}

StepReport GangSession::load() {
  TrainingState own = state();
  StepReport report =
      load_checkpoint(assignment().checkpoint, owner_of(assignment()), own);
  set_progress(own.position, own.updates);
  return report;
}

std::optional<TrainingState> GangSession::gather(int leader) {
  if (member() != leader) return std::nullopt;
  return state();
}

gang::Begin GangSession::begin_of(int step) {
  const TrainingState own = state();
  gang::Begin begin;
  begin.step = step;
  begin.updates = own.updates;
  begin.position = own.position;
  begin.end = plan().end_of(step);
  begin.epoch_samples = epoch_samples();
  begin.batch_size = assignment().recipe.train.batch_size;
  begin.evaluation_batches = predictions_ ? predictions_->batches() : 0;
  return begin;
}

void GangSession::joined(const gang::Regroup& /*order*/) {}

void GangSession::settle(const std::vector<int>& /*who*/,
                         Duration /*patience*/) {}

// Whatever ends a step early, peers must not wait for this member.
StepReport GangSession::perform_step(const std::atomic<bool>& stop) {
  try {
    return follow_orders(stop);
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

StepReport GangSession::follow_orders(const std::atomic<bool>& stop) {
  begin_step();
  totals_ = {};
  times = {};
  if (predictions_) predictions_->clear();
  start_progress(state().position);
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
  set_steps(order.step - 1);  // one that comes back may have missed steps
  if (order.source == member()) serve(order.targets, order.patience);
  if (contains(order.targets, member())) receive(order.source, order.patience);
  leader_ = leader_of(order);
  joined(order);
  if (order.work.phase != gang::Phase::train) {
    settle(link_.members(), order.patience);
  }
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
    throw Error(ErrorKind::comm, "gang: a round without members");
  }
  leader_ = go.participants.front();
  if (work.phase == gang::Phase::train) {
    totals_ += go.totals;
    note_position(work.position + go.totals.samples);
    if (!go.last && go.next.phase != gang::Phase::train) {
      settle(go.participants, go.patience);
    }
  }
  if (go.source == member()) serve(go.targets, go.patience);
}

void GangSession::serve(const std::vector<int>& targets, Duration patience) {
  const TrainingState own = state();
  const MemberProgress progress{.step = step(), .totals = totals_};
  for (const int target : targets) {
    client().set_phase("sending state to member", target);
    send_state(link_.whole_group(), link_.rank_of(target), own, progress,
               patience);
  }
}

void GangSession::receive(int source, Duration patience) {
  client().set_phase("receiving state from member", source);
  TrainingState own = state();
  MemberProgress progress;
  try {
    progress = receive_state(link_.whole_group(), link_.rank_of(source), own,
                             patience);
  } catch (const Error&) {
    // Half of what was received and half of its own: not to be gone on from.
    put_commit();
    totals_ = {};
    throw;
  }
  set_progress(own.position, own.updates);
  totals_ = progress.totals;
  set_steps(progress.step - 1);
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
