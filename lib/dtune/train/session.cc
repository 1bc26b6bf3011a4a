#include "dtune/train/session.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include <c10/core/StreamGuard.h>

#include "dtune/study/study.h"
#include "dtune/train/checkpoint.h"
#include "dtune/train/device.h"
#include "dtune/train/failure.h"
#include "dtune/train/fused_trainer.h"
#include "dtune/train/network_costs.h"
#include "dtune/train/step_session.h"
#include "dtune/train/torch_settings.h"
#include "dtune/train/trainer.h"

namespace dtune {
namespace {

// What the thread gives to the device goes to this stream, if there is one.
class OnStream {
 public:
  explicit OnStream(const std::optional<c10::Stream>& stream) {
    if (stream) guard_.emplace(*stream);
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

class CnnSession final : public StepSession {
 public:
  CnnSession(TrialAssignment assignment,
             std::shared_ptr<const PreparedData> data, FusedTrainer* fused)
      : StepSession(std::move(assignment), std::move(data)),
        fused_(fused),
        stream_(fused == nullptr ? std::nullopt : own_stream(device())) {
    const OnStream on(stream_);
    as_trial_failure(where(), [this] { begin(); });
  }

  bool is_unsaved() const override { return unsaved_.has_value(); }

  uint64_t resident_bytes() const override {
    return trainer_->resident_bytes();
  }

 private:
  // Each step is a training of its own.
  bool begins_anew() const { return trains_levels(assignment().recipe); }

  void make_trainer() {
    trainer_ = nullptr;  // frees its memory first
    TrainerOptions options = trainer_options(assignment(), device());
    options.share =
        step_share(assignment().recipe, step(), assignment().horizon);
    trainer_ = std::make_unique<Trainer>(assignment().recipe, options, data());
  }

  int64_t end_of_step() const override {
    if (!begins_anew()) return StepSession::end_of_step();
    return std::max<int64_t>(
        1, std::llround(epochs_of(assignment()) * double(trainer_->count())));
  }

  StepReport load() {
    return load_checkpoint(assignment().checkpoint, owner_of(assignment()),
                           *trainer_);
  }

  void begin() {
    use(computing_of(assignment()));
    make_trainer();
    if (assignment().resume_step > 0) resume(load(), /*later=*/false);
  }

  void restore() override {
    make_trainer();
    if (steps_done() > 0) load();
  }

  StepReport perform_step(const std::atomic<bool>& stop) override {
    const OnStream on(stream_);
    if (!unsaved_) unsaved_ = train_step(stop);
    return save_step();
  }

  StepReport train_step(const std::atomic<bool>& stop) {
    begin_step();
    if (begins_anew() && trainer_->position() > 0) make_trainer();
    start_progress(trainer_->position());
    StepReport report;
    report.step = step();
    const LossTotals totals = train_to(end_of_step(), stop);
    report.metrics = training_metrics(totals);
    if (!trains_on_validation(assignment())) {
      report.metrics.merge(
          predict(trainer_->judged(), Split::validation, stop).metrics("val_"));
    }
    report.metrics.merge(costs());
    report.seconds = step_seconds();
    return report;
  }

  LossTotals train_to(int64_t end, const std::atomic<bool>& stop) {
    const Trainer::AfterBatch note = [this](int64_t position) {
      note_position(position);
    };
    const bool alone =
        fused_ == nullptr || assignment().deterministic || begins_anew();
    return alone ? trainer_->train_to(end, stop, note)
                 : fused_->train_to(*trainer_, end, stop, note, &together());
  }

  // They do not change while it trains.
  std::map<std::string, double> costs() {
    if (!asks_for_costs(assignment().recipe.objective)) return {};
    if (costs_.empty()) {
      costs_ =
          measure_costs(trainer_->network(), data()->image_shape(), device());
    }
    return costs_;
  }

  // The step counts once its checkpoint is written; while the disk is full the
  // trainer keeps it.
  StepReport save_step() {
    StepReport report = *unsaved_;
    const MonoTime begin = system_clock().now();
    if (!assignment().checkpoint.empty()) {
      write_checkpoint(assignment().checkpoint, owner_of(assignment()),
                       assignment().attempt, report, state_of(*trainer_));
    }
    report.checkpoint_seconds = to_seconds(system_clock().now() - begin);
    unsaved_.reset();
    return finish_step(std::move(report));
  }

  std::map<std::string, double> test() override {
    const OnStream on(stream_);
    return write_final(trainer_->judged());
  }

  FusedTrainer* fused_;                // null: trains alone
  std::optional<c10::Stream> stream_;  // else of a GPU: of this trial alone
  std::unique_ptr<Trainer> trainer_;
  std::map<std::string, double> costs_;  // once measured
  std::optional<StepReport> unsaved_;    // of a step without a checkpoint
};

}  // namespace

std::unique_ptr<TrialSession> make_cnn_session(
    const TrialAssignment& assignment, std::shared_ptr<const PreparedData> data,
    FusedTrainer* fused) {
  return std::make_unique<CnnSession>(assignment, std::move(data), fused);
}

}  // namespace dtune
