#include "dtune/train/step_session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/train/device.h"
#include "dtune/train/evaluate.h"
#include "dtune/train/failure.h"
#include "dtune/train/model_file.h"
#include "dtune/train/setup.h"
#include "dtune/train/torch_settings.h"

namespace dtune {
namespace {

int64_t samples_of(const TrialAssignment& assignment,
                   const PreparedData& data) {
  const int64_t more =
      trains_on_validation(assignment) ? data.count(Split::validation) : 0;
  return data.count(Split::train) + more;
}

}  // namespace

StepSession::StepSession(TrialAssignment assignment,
                         std::shared_ptr<const PreparedData> data)
    : assignment_(std::move(assignment)),
      data_(std::move(data)),
      where_(fmt::format("trial {}", assignment_.trial)),
      normalization_(
          normalization_of(*data_, assignment_.recipe.data.normalize)),
      device_(find_device(assignment_.recipe.train.device)),
      epoch_samples_(samples_of(assignment_, *data_)) {
  check_splits(assignment_, *data_);
  check_precision(assignment_.recipe.train.precision, device_);
  plan_ = plan_steps(assignment_, *data_, epoch_samples_);
}

StepReport StepSession::run_step(const std::atomic<bool>& stop) {
  if (unheard_) {
    ++steps_;
    return *std::exchange(unheard_, std::nullopt);
  }
  return as_step_failure(where_, steps_, [&] { return perform_step(stop); });
}

std::map<std::string, double> StepSession::finish_final() {
  if (!can_test()) return {};
  if (!final_metrics_) {
    final_metrics_ = as_trial_failure(where_, [this] {
      DTUNE_CHECK(assignment_.kind == TrialKind::final && !broken_off_);
      use(computing_of(assignment_));
      return test();
    });
  }
  return *final_metrics_;
}

void StepSession::resume(StepReport report, bool later) {
  const int known = assignment_.resume_step;
  // What is behind was whole before the machine lost power: its steps are
  // trained again. The ranks of a gang agree on the newest by themselves.
  if (!later && report.step > known + 1) {
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

void StepSession::begin_step() {
  use(computing_of(assignment_));
  if (broken_off_) restore();
  broken_off_ = true;
  began_ = system_clock().now();
}

void StepSession::start_progress(int64_t position) {
  first_ = position;
  note_position(position);
}

void StepSession::note_position(int64_t position) {
  const auto done = static_cast<double>(position - first_);
  const auto all = static_cast<double>(end_of_step() - first_);
  const double seconds = step_seconds();
  fraction_ = all > 0 ? std::clamp(done / all, 0.0, 1.0) : 1;
  rate_ = seconds > 0 ? done / seconds : 0;
}

double StepSession::step_seconds() const {
  return to_seconds(system_clock().now() - began_);
}

StepReport StepSession::finish_step(StepReport report) {
  broken_off_ = false;
  fraction_ = 1;
  ++steps_;
  last_ = report.metrics;
  return report;
}

Predictions StepSession::predict(Network& network, Split split,
                                 const std::atomic<bool>& stop) const {
  const BatchSource source(data_, {split}, normalization_);
  Predictions predictions =
      predict_all(network, source, data_->classes(), device_, stop);
  if (!predictions.finite()) fail_not_finite(assignment_);
  return predictions;
}

std::map<std::string, double> StepSession::write_final(Network& network) const {
  const SingleThread exactly;
  const std::atomic<bool> never = false;
  std::optional<double> threshold;
  const ThresholdRule rule = assignment_.recipe.final_training.threshold;
  if (rule != ThresholdRule::half) {
    threshold = predict(network, Split::validation, never).best_threshold(rule);
  }
  Predictions predictions = predict(network, Split::test, never);
  if (threshold) predictions.set_threshold(*threshold);
  std::map<std::string, double> metrics = predictions.metrics("test_");
  if (threshold) metrics["test_threshold"] = *threshold;
  std::map<std::string, double> all = last_;
  all.insert(metrics.begin(), metrics.end());
  write_model(
      assignment_.model_file,
      ModelCard{assignment_, *data_, normalization_, std::move(all), threshold},
      network);
  return metrics;
}

}  // namespace dtune
