#include "dtune/train/session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/train/assignment.h"
#include "dtune/train/checkpoint.h"
#include "dtune/train/device.h"
#include "dtune/train/evaluate.h"
#include "dtune/train/failure.h"
#include "dtune/train/model_file.h"

namespace dtune {
namespace {

class CnnSession final : public TrialSession {
 public:
  CnnSession(TrialAssignment assignment,
             std::shared_ptr<const PreparedData> data)
      : assignment_(std::move(assignment)),
        data_(std::move(data)),
        where_(fmt::format("trial {}", assignment_.trial)),
        normalization_(
            normalization_of(*data_, assignment_.recipe.data.normalize)),
        device_(find_device(assignment_.recipe.train.device)) {
    check_splits(assignment_, *data_);
    as_trial_failure(where_, [this] { begin(); });
  }

  int steps_done() const override { return steps_; }

  StepReport run_step(const std::atomic<bool>& stop) override {
    if (unheard_) {
      ++steps_;
      return *std::exchange(unheard_, std::nullopt);
    }
    return as_step_failure(where_, steps_, [&] {
      if (!unsaved_) unsaved_ = train_step(stop);
      return save_step();
    });
  }

  bool is_unsaved() const override { return unsaved_.has_value(); }

  uint64_t resident_bytes() const override {
    return trainer_->resident_bytes();
  }

  StepProgress progress() const override { return {fraction_, rate_}; }

  std::map<std::string, double> finish_final() override {
    if (!final_metrics_) {
      final_metrics_ =
          as_trial_failure(where_, [this] { return write_final(); });
    }
    return *final_metrics_;
  }

 private:
  void make_trainer() {
    trainer_ = nullptr;  // frees its memory first
    trainer_ = std::make_unique<Trainer>(
        assignment_.recipe, trainer_options(assignment_, device_), data_);
    plan_ = plan_steps(assignment_, *data_, trainer_->count());
  }

  void begin() {
    use(computing_of(assignment_));
    make_trainer();
    if (assignment_.resume_step == 0) return;
    StepReport report = load_checkpoint(assignment_.checkpoint,
                                        owner_of(assignment_), *trainer_);
    steps_ = assignment_.resume_step;
    last_ = report.metrics;
    if (report.step == steps_ + 1) {
      unheard_ = std::move(report);
    } else if (report.step != steps_) {
      throw Error(
          ErrorKind::data,
          fmt::format("{}: the checkpoint cannot be used: it holds step {}, "
                      "not {} (the trial has to start again)",
                      assignment_.checkpoint.string(), report.step, steps_));
    }
  }

  // Back to the end of the last whole step, after one that was broken off.
  void restore() {
    make_trainer();
    if (steps_ > 0) {
      load_checkpoint(assignment_.checkpoint, owner_of(assignment_), *trainer_);
    }
    broken_off_ = false;
  }

  // Trains to the end of the step, telling the meter after each batch.
  LossTotals train_metered(int64_t end, const std::atomic<bool>& stop) {
    const MonoTime began = system_clock().now();
    const int64_t first = trainer_->position();
    fraction_ = 0;
    rate_ = 0;
    return trainer_->train_to(end, stop, [&](int64_t position) {
      const auto done = static_cast<double>(position - first);
      fraction_ = std::min(1.0, done / static_cast<double>(end - first));
      const double seconds = to_seconds(system_clock().now() - began);
      rate_ = seconds > 0 ? done / seconds : 0;
    });
  }

  StepReport train_step(const std::atomic<bool>& stop) {
    use(computing_of(assignment_));
    if (broken_off_) restore();
    broken_off_ = true;
    const MonoTime begin = system_clock().now();
    StepReport report;
    report.step = steps_ + 1;
    const LossTotals totals = train_metered(plan_.end_of(report.step), stop);
    if (totals.samples > 0) {
      report.metrics["train_loss"] = totals.loss / totals.weight;
      report.metrics["train_accuracy"] = static_cast<double>(totals.right) /
                                         static_cast<double>(totals.samples);
    }
    if (!trains_on_validation(assignment_)) {
      report.metrics.merge(judge(Split::validation, "val_", stop));
    }
    report.seconds = to_seconds(system_clock().now() - begin);
    return report;
  }

  // The step counts once its checkpoint is written; while the disk is full the
  // trainer keeps it.
  StepReport save_step() {
    StepReport report = *unsaved_;
    const MonoTime begin = system_clock().now();
    if (!assignment_.checkpoint.empty()) {
      write_checkpoint(assignment_.checkpoint, owner_of(assignment_),
                       assignment_.attempt, report, state_of(*trainer_));
    }
    report.checkpoint_seconds = to_seconds(system_clock().now() - begin);
    unsaved_.reset();
    broken_off_ = false;
    ++steps_;
    last_ = report.metrics;
    return report;
  }

  std::map<std::string, double> judge(Split split, const std::string& prefix,
                                      const std::atomic<bool>& stop) {
    const BatchSource source(data_, {split}, normalization_);
    const Answers answers = answer_all(trainer_->network(), source,
                                       data_->classes(), device_, stop);
    if (!answers.finite()) fail_not_finite(assignment_);
    return answers.metrics(prefix);
  }

  std::map<std::string, double> write_final() {
    DTUNE_CHECK(assignment_.kind == TrialKind::final && !broken_off_);
    use(computing_of(assignment_));
    const SingleThread exactly;
    const std::atomic<bool> never = false;
    std::map<std::string, double> metrics = judge(Split::test, "test_", never);
    std::map<std::string, double> all = last_;
    all.insert(metrics.begin(), metrics.end());
    write_model(assignment_.model_file,
                ModelCard{assignment_, *data_, normalization_, std::move(all)},
                trainer_->network());
    return metrics;
  }

  TrialAssignment assignment_;
  std::shared_ptr<const PreparedData> data_;
  std::string where_;
  Normalization normalization_;
  at::Device device_;
  std::unique_ptr<Trainer> trainer_;
  StepPlan plan_;
  int steps_ = 0;
  bool broken_off_ = false;            // the trainer is inside a step
  std::atomic<double> fraction_ = 0;   // of the step in flight
  std::atomic<double> rate_ = 0;       // samples a second
  std::optional<StepReport> unheard_;  // of a step that is done already
  std::optional<StepReport> unsaved_;  // likewise, without a checkpoint
  std::map<std::string, double> last_;
  std::optional<std::map<std::string, double>> final_metrics_;
};

}  // namespace

std::unique_ptr<TrialSession> make_cnn_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data) {
  return std::make_unique<CnnSession>(assignment, std::move(data));
}

}  // namespace dtune
