// What a step of a gang comes to: the evaluation, the checkpoint, the report;
// and the final test.
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "dtune/distributed/gang_session.h"
#include "dtune/gang/members.h"
#include "dtune/train/device.h"
#include "dtune/train/failure.h"
#include "dtune/train/model_file.h"

namespace dtune {

gang::Order GangSession::evaluate(const gang::Work& work,
                                  const std::atomic<bool>& stop) {
  Network* network = whole_network();
  if (!work.spans.empty() && (network == nullptr || !predictions_)) {
    throw Error(ErrorKind::comm,
                "gang: this member was asked to judge a network that it does "
                "not have (all members must run one version)");
  }
  for (const Span& span : work.spans) {
    for (int64_t i = 0; i < span.size; ++i) {
      if (stop.load(std::memory_order_relaxed)) throw StepStopped();
      client().set_phase("evaluating batch", span.first + i);
      predictions_->answer(*network, span.first + i);
    }
  }
  gang::Ready ready;
  ready.round = work.round;
  ready.updates = state().updates;
  client().ready(ready);
  client().set_phase("waiting for others to evaluate", work.round);
  gang::Order order = link_.wait_for(work.round, stop);
  const auto* go = std::get_if<gang::Go>(&order);
  if (go != nullptr && !go->last && predictions_ && !go->participants.empty()) {
    std::vector<int> ranks;
    for (const int one : go->participants) ranks.push_back(link_.rank_of(one));
    predictions_->gather(link_.whole_group(), ranks, ranks.front(), work.spans,
                         go->patience);
  }
  return order;
}

gang::Order GangSession::commit(const gang::Work& work,
                                const std::atomic<bool>& stop) {
  client().set_phase("committing step", step());
  const std::optional<TrainingState> whole = gather(leader_);
  gang::Ready ready;
  ready.round = work.round;
  ready.updates = state().updates;
  if (!work.spans.empty()) {  // the leader's
    StepReport report;
    report.step = step();
    report.metrics = ready.metrics = leader_metrics();
    report.seconds = step_seconds();
    if (whole) write(*whole, std::move(report));
  }
  client().ready(ready);
  client().set_phase("waiting for the commit", work.round);
  return link_.wait_for(work.round, stop);
}

std::map<std::string, double> GangSession::leader_metrics() {
  std::map<std::string, double> metrics = training_metrics(totals_);
  metrics.merge(judge_step());
  return metrics;
}

std::map<std::string, double> GangSession::judge_step() {
  if (!predictions_) return {};
  if (Network* network = whole_network()) predictions_->complete(*network);
  const Predictions all = predictions_->all();
  // All members fail alike, when they get it.
  if (!all.finite()) {
    return {{"val_loss", std::numeric_limits<double>::quiet_NaN()}};
  }
  return all.metrics("val_");
}

void GangSession::write(const TrainingState& whole, StepReport report) {
  if (assignment().checkpoint.empty()) return;
  const auto loss = report.metrics.find("val_loss");
  if (loss != report.metrics.end() && std::isnan(loss->second)) return;
  write_checkpoint(assignment().checkpoint, owner_of(assignment()),
                   assignment().attempt, report, whole);
}

StepReport GangSession::finish(const gang::Go& go) {
  const auto loss = go.metrics.find("val_loss");
  if (loss != go.metrics.end() && std::isnan(loss->second)) {
    fail_not_finite(assignment());
  }
  StepReport report;
  report.step = step();
  report.metrics = go.metrics;
  report.seconds = step_seconds();
  commit_.take(state());
  current_ = gang::contains(go.participants, member());
  client().set_phase("between steps");
  return finish_step(std::move(report));
}

// A member without the whole network, or that was late at the end, on a node
// without the file that the leader has written, has nothing to say: the
// coordinator waits for the leader.
bool GangSession::can_test() {
  const bool leads = client().rank().member == leader_;
  return leads || (current_ && whole_network() != nullptr) ||
         std::filesystem::exists(assignment().checkpoint);
}

std::map<std::string, double> GangSession::test() {
  client().set_phase("testing");
  Network* network = whole_network();
  if (network != nullptr && current_) return write_final(*network);
  // The last commit has brought the network together. Who was late for it may
  // lack updates.
  Trainer whole(assignment().recipe, trainer_options(assignment(), device()),
                data());
  load_checkpoint(assignment().checkpoint, owner_of(assignment()), whole);
  return write_final(whole.judged());
}

}  // namespace dtune
