#include "dtune/train/gang_session.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/members.h"
#include "dtune/train/device.h"
#include "dtune/train/failure.h"
#include "dtune/train/model_file.h"

namespace dtune {
namespace {

using gang::contains;

int64_t samples_of(const TrialAssignment& assignment,
                   const PreparedData& data) {
  const int64_t more =
      trains_on_validation(assignment) ? data.count(Split::validation) : 0;
  return data.count(Split::train) + more;
}

gang::Totals& operator+=(gang::Totals& sum, const gang::Totals& more) {
  sum.loss += more.loss;
  sum.weight += more.weight;
  sum.right += more.right;
  sum.samples += more.samples;
  return sum;
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
  try {
    return as_trial_failure(where_, [&] { return run_until_done(stop); });
  } catch (const TrialFailure& failure) {
    throw TrialFailure(failure.reason(),
                       fmt::format("step {}: {}", step(), failure.what()));
  }
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
    order = take(std::move(order), stop);
  }
}

// What an order asks for; returns the next one.
gang::Order GangSession::take(gang::Order order,
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
  const MemberProgress progress =
      receive_state(link_.everybody(), link_.rank_of(source), own, patience);
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
    if (!std::holds_alternative<gang::Go>(order)) return order;
  }
}

gang::Order GangSession::evaluate(const gang::Work& work,
                                  const std::atomic<bool>& stop) {
  Network* network = whole_network();
  if (!work.spans.empty() && (network == nullptr || !answers_)) {
    throw Error(ErrorKind::comm,
                "gang: this member was asked to judge a network that it does "
                "not have (all members must run one version)");
  }
  for (const gang::Span& span : work.spans) {
    for (int64_t i = 0; i < span.size; ++i) {
      if (stop.load(std::memory_order_relaxed)) throw StepStopped();
      client().set_phase("evaluating batch", span.first + i);
      answers_->answer(*network, span.first + i);
    }
  }
  gang::Ready ready;
  ready.round = work.round;
  ready.updates = state().updates;
  client().ready(ready);
  client().set_phase("waiting for others to evaluate", work.round);
  gang::Order order = link_.wait_for(work.round, stop);
  const auto* go = std::get_if<gang::Go>(&order);
  if (go != nullptr && !go->last && answers_ && !go->participants.empty()) {
    std::vector<int> ranks;
    for (const int one : go->participants) ranks.push_back(link_.rank_of(one));
    answers_->gather(link_.everybody(), ranks, ranks.front(), work.spans,
                     go->patience);
  }
  return order;
}

gang::Order GangSession::commit(const gang::Work& work,
                                const std::atomic<bool>& stop) {
  client().set_phase("committing step", step());
  const std::optional<TrainingState> whole = gather(lead_);
  gang::Ready ready;
  ready.round = work.round;
  ready.updates = state().updates;
  if (!work.spans.empty()) {  // the lead's
    StepReport report;
    report.step = step();
    report.metrics = ready.metrics = lead_metrics();
    report.seconds = to_seconds(system_clock().now() - began_);
    if (whole) write(*whole, std::move(report));
  }
  client().ready(ready);
  client().set_phase("waiting for the commit", work.round);
  return link_.wait_for(work.round, stop);
}

std::map<std::string, double> GangSession::lead_metrics() {
  std::map<std::string, double> metrics;
  if (totals_.samples > 0) {
    metrics["train_loss"] = totals_.loss / totals_.weight;
    metrics["train_accuracy"] = static_cast<double>(totals_.right) /
                                static_cast<double>(totals_.samples);
  }
  metrics.merge(judge());
  return metrics;
}

std::map<std::string, double> GangSession::judge() {
  if (!answers_) return {};
  if (Network* network = whole_network()) answers_->complete(*network);
  const Answers all = answers_->all();
  // All members fail alike, when they get it.
  if (!all.finite()) {
    return {{"val_loss", std::numeric_limits<double>::quiet_NaN()}};
  }
  return all.metrics("val_");
}

void GangSession::write(const TrainingState& whole, StepReport report) {
  if (assignment_.checkpoint.empty()) return;
  const auto loss = report.metrics.find("val_loss");
  if (loss != report.metrics.end() && std::isnan(loss->second)) return;
  write_checkpoint(assignment_.checkpoint, owner_of(assignment_),
                   assignment_.attempt, report, whole);
}

StepReport GangSession::finish(const gang::Go& go) {
  const auto loss = go.metrics.find("val_loss");
  if (loss != go.metrics.end() && std::isnan(loss->second)) {
    fail_not_finite(assignment_);
  }
  StepReport report;
  report.step = step();
  report.metrics = last_ = go.metrics;
  report.seconds = to_seconds(system_clock().now() - began_);
  commit_.take(state());
  broken_off_ = false;
  fraction_ = 1;
  ++steps_;
  client().set_phase("between steps");
  return report;
}

// A member without the whole network, on a node without the file that the lead
// has written, has nothing to say: the coordinator waits for the lead.
std::map<std::string, double> GangSession::finish_final() {
  const bool leads = client().seat().member == lead_;
  if (!leads && whole_network() == nullptr &&
      !std::filesystem::exists(assignment_.checkpoint)) {
    return {};
  }
  if (!final_metrics_) {
    final_metrics_ = as_trial_failure(where_, [this] { return test(); });
  }
  return *final_metrics_;
}

std::map<std::string, double> GangSession::test() {
  DTUNE_CHECK(assignment_.kind == TrialKind::final && !broken_off_);
  use(computing_of(assignment_));
  client().set_phase("testing");
  if (Network* network = whole_network()) return write_final(*network);
  // The last commit has brought the network together.
  Trainer whole(assignment_.recipe, trainer_options(assignment_, device_),
                data_);
  load_checkpoint(assignment_.checkpoint, owner_of(assignment_), whole);
  return write_final(whole.network());
}

std::map<std::string, double> GangSession::write_final(Network& network) {
  const SingleThread exactly;
  const std::atomic<bool> never = false;
  const BatchSource source(data_, {Split::test}, normalization_);
  const Answers answers =
      answer_all(network, source, data_->classes(), device_, never);
  if (!answers.finite()) fail_not_finite(assignment_);
  std::map<std::string, double> metrics = answers.metrics("test_");
  std::map<std::string, double> all = last_;
  all.insert(metrics.begin(), metrics.end());
  write_model(assignment_.model_file,
              ModelCard{assignment_, *data_, normalization_, std::move(all)},
              network);
  return metrics;
}

}  // namespace dtune
