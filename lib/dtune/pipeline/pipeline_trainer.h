// Trains one stage of a network: what Trainer does, by several processes that
// each have some of the layers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/gang/messages.h"
#include "dtune/pipeline/pipeline_stage.h"
#include "dtune/train/checkpoint.h"
#include "dtune/train/evaluate.h"
#include "dtune/train/loss.h"
#include "dtune/train/optimizer.h"
#include "dtune/train/trainer.h"

namespace dtune {

// Micro-batches that a whole batch is cut into, as far as it has the samples.
int micro_batches_of(const PipelineSpec& spec, int stages);

// The data plane of one member. With one replica there is no `same_stage`.
struct PipelineGroups {
  Collective* all = nullptr;         // rank = member
  Collective* same_stage = nullptr;  // rank = replica
  Duration patience{60'000'000'000};
};

// Ends with the weights of a Trainer, to rounding, for networks without batch
// norm (pipeline_stage.h says what that does): order, augmentation, dropout
// masks, losses' shares, clipping and schedules are the same. Of several
// replicas each takes an equal part of every batch, by position; gradients are
// summed over the members of a stage, running statistics are averaged at the
// end of train_to.
//
// All members call the same functions in the same order. What any of them
// throws of kind comm leaves the group broken and this in the middle of a
// batch: set_state after attach. Not thread-safe.
class PipelineTrainer {
 public:
  // `first_layer`: of each stage. Throws as Trainer.
  PipelineTrainer(const Recipe& recipe, const TrainerOptions& options,
                  std::shared_ptr<const PreparedData> data,
                  const PipelinePlace& place, std::vector<int> first_layer,
                  PipelineWatch watch = {});

  // The groups must outlive what is done with them.
  void attach(const PipelineGroups& groups);

  int64_t count() const { return source_.count(); }
  int64_t position() const { return position_; }
  int64_t updates() const { return optimizer_.updates(); }

  // As Trainer's; all members get the totals of the whole batches, and all
  // throw TrialFailure(diverged) at the same batch.
  LossTotals train_to(int64_t end, const std::atomic<bool>& stop,
                      const Trainer::AfterBatch& after_batch = nullptr);

  // The predictions of all batches, on the leader; empty on others.
  std::optional<Predictions> answer(EvaluationBatches& batches,
                                    const std::atomic<bool>& stop);

  // This stage's part of the state, as views.
  TrainingState state();
  void set_progress(int64_t position, int64_t updates);
  // Takes this stage's part of it.
  void set_state(const TrainingState& whole);
  // The members' parts, put together on the leader; empty on others. Waits for
  // the members of the first replica.
  std::optional<TrainingState> gather_state();

  // Forgets what is under way and lets go of the groups; gradients are zero.
  void abandon();

  // Sums since the last call.
  gang::RoundTimes take_times();
  uint64_t resident_bytes();

 private:
  LossTotals train_batch(const BatchRange& batch);
  void run_stage(const BatchRange& batch, LossTotals& own);
  at::Tensor gather_images(const BatchRange& batch, const MicroBatch& micro);
  at::Tensor loss_gradient(const MicroBatch& micro, const at::Tensor& logits,
                           LossTotals& totals);
  MicroBatch part_of(const BatchRange& batch) const;
  void read_targets(const BatchRange& batch);
  Targets targets() const;
  AugmentKey augment_key(int64_t epoch) const;
  Network& judged() {
    return average_ ? average_->network() : stage_.network();
  }
  LossTotals share_totals(const BatchRange& batch, const LossTotals& own);
  void wait_for_totals();
  void finish_messages();
  void sum_over_replicas(at::Tensor& values);
  double whole_norm(const BatchRange& batch);
  void average_buffers();
  void average_over_replicas(at::Tensor& buffers);
  void send_state();
  std::vector<PipelineTransfer> expect_logits(EvaluationBatches& batches,
                                              std::vector<at::Tensor>& logits);
  void answer_own(EvaluationBatches& batches, const std::atomic<bool>& stop,
                  std::vector<at::Tensor>& logits);
  void check_attached() const;
  TrainingProgress progress() const {
    return {position_, count(), options_.epochs};
  }

  TrainSpec train_;
  Augmentation augment_;
  TrainerOptions options_;
  PipelineSpec spec_;
  PipelinePlace place_;
  int classes_;
  BatchSource source_;
  BatchOrder order_;
  Loss loss_;
  uint64_t architecture_;
  int64_t least_;  // samples of a micro-batch
  std::vector<StageSlice> slices_;
  PipelineStage stage_;
  Optimizer optimizer_;
  std::optional<WeightAverage> average_;
  at::Tensor images_;            // first stage: of this replica's part
  std::vector<int32_t> labels_;  // last stage: of the whole batch
  LabelMix mix_;                 // likewise
  double weight_ = 0;            // of the whole batch
  int64_t position_ = 0;
  PipelineGroups groups_;
  std::optional<PipelineLinks> links_;
  std::vector<PipelineTransfer> totals_sent_;  // until the next batch
  gang::RoundTimes times_;
};

// A whole network's state, zero: room for what a checkpoint holds. `samples`:
// of an epoch.
TrainingState empty_state(const Recipe& recipe, const PreparedData& data,
                          int64_t samples);

}  // namespace dtune
