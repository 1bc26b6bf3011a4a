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
  if (!work.spans.empty() && (network == nullptr || !answers_)) {
    throw Error(ErrorKind::comm,
                "gang: this member was asked to judge a network that it does "
                "not have (all members must run one version)");
  }
  for (const Span& span : work.spans) {
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
  current_ = gang::contains(go.participants, member());
  fraction_ = 1;
  ++steps_;
  client().set_phase("between steps");
  return report;
}

// A member without the whole network, or that was late at the end, on a node
// without the file that the lead has written, has nothing to say: the
// coordinator waits for the lead.
std::map<std::string, double> GangSession::finish_final() {
  const bool leads = client().seat().member == lead_;
  const bool has_all = current_ && whole_network() != nullptr;
  if (!leads && !has_all && !std::filesystem::exists(assignment_.checkpoint)) {
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
  Network* network = whole_network();
  if (network != nullptr && current_) return write_final(*network);
  // The last commit has brought the network together. Who was late for it may
  // lack updates.
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
