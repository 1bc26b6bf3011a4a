// Trains one network: batches in, weights changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/data/batches.h"
#include "dtune/data/spans.h"
#include "dtune/nn/network.h"
#include "dtune/study/metrics.h"
#include "dtune/study/recipe.h"
#include "dtune/train/batch_source.h"
#include "dtune/train/device_images.h"
#include "dtune/train/device_loss.h"
#include "dtune/train/loss.h"
#include "dtune/train/optimizer.h"
#include "dtune/train/setup.h"
#include "dtune/train/step_graph.h"
#include "dtune/train/weight_average.h"

namespace dtune {

struct TrainerOptions {
  uint64_t seed = 0;  // of weights, order, augmentation and dropout
  double epochs = 1;  // of the whole training: what schedules go by
  at::Device device = at::kCPU;
  bool with_validation = false;  // train on the validation split too
  double share = 1;              // of the images, as data.limit keeps them
  // On the CPU, too, images, losses and updates are made by the tensor
  // operations that other devices have: the twin for tests.
  bool as_device = false;
};

// A part of a batch, as one rank of a gang computes it.
struct BatchPart {
  int64_t epoch = 0;
  int64_t number = 0;                // of the batch: keys the dropout masks
  int64_t first_sample = 0;          // place in the batch of its first
  std::span<const Span> spans = {};  // of the epoch's order
};

// A batch that a device computes: what it will come to.
struct BatchInWork {
  BatchRange batch;
  double weight = 0;   // sum of its samples' weights
  at::Tensor outcome;  // [3] float64: loss, correct samples, gradient's norm
};

// A network in training. The weights after n samples depend on the recipe, the
// seed and n alone (and, in the last bits, on the machine and the threads): not
// on steps, pauses or resumes. Not thread-safe.
class Trainer {
 public:
  // Throws Error(config) where the model does not fit the data's images.
  Trainer(const Recipe& recipe, const TrainerOptions& options,
          std::shared_ptr<const PreparedData> data);

  // Samples an epoch.
  int64_t count() const { return source_.count(); }
  // The same of a training on all images.
  int64_t whole_count() const { return source_.places(); }
  // Samples seen since the start: always at a batch's end.
  int64_t position() const { return position_; }
  void set_position(int64_t position) { position_ = position; }

  // Trains whole batches until position() >= end. Throws StepStopped if `stop`
  // is set, which is looked at before each batch, and TrialFailure(diverged) if
  // the loss or the gradient is no finite number; both leave the weights as
  // they are then.
  // Other devices than the CPU are not waited for: what their batches came to
  // is read at the end and after each kAhead of them, and a failure is found
  // then; the weights are of no use after it.
  // `after_batch` gets the position after each batch.
  static constexpr size_t kAhead = 32;
  using AfterBatch = std::function<void(int64_t position)>;
  LossTotals train_to(int64_t end, const std::atomic<bool>& stop,
                      const AfterBatch& after_batch = nullptr);

  // What train_to does with each batch, for those that share it out.
  //
  // Input of the next forward; returns its samples. Throws Error(comm) where
  // the epoch has no such samples.
  int64_t gather(const BatchPart& part);
  // Sums over the gathered samples; the loss may be no finite number.
  LossTotals forward();
  // Adds the gradient of the gathered samples' mean loss. Without samples there
  // is none, and all layers are ready at once.
  void backward(const Network::GradientReady& ready = nullptr);
  // Throws TrialFailure(diverged) if the loss is no finite number.
  void check_loss(const LossTotals& totals, const BatchRange& batch) const;
  // One update with the network's gradients, which are zero afterwards, at the
  // learning rate of `batch`; position() moves on by its size. Throws
  // TrialFailure(diverged) if the gradient's norm is no finite number.
  void update(const BatchRange& batch);

  // --- Between gather() and update(), for those that compute several trainings
  // as one (fused_trainer.h).

  BatchRange next_batch() const { return order_.at(position_); }
  // Gathers the whole batch.
  void gather(const BatchRange& batch);
  // Of the gathered samples, [n, C, H, W] on the device.
  at::Tensor images();
  const PassContext& pass() const { return pass_; }
  // The gathered samples' labels and the loss that is trained.
  JudgedBatch judged_batch() const { return {&loss_, targets()}; }
  // The update of `batch`, to be applied by the caller; then updated().
  RowStep next_update(const BatchRange& batch) const;
  void updated(const BatchRange& batch);
  // What a batch came to. Throws TrialFailure(diverged), as train_to.
  LossTotals totals_of(const BatchRange& batch, double loss, double correct,
                       double weight, double norm) const;

  const TrainSpec& train_spec() const { return train_; }
  const TrainerOptions& options() const { return options_; }
  const std::vector<LayerSpec>& layers() const { return layers_; }
  const Shape& image_shape() const { return source_.image_shape(); }
  int classes() const { return classes_; }

  Network& network() { return network_; }
  // What is judged and kept: the moving average where there is one.
  Network& judged() { return average_ ? average_->network() : network_; }
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  Optimizer& optimizer() { return optimizer_; }
  // Null on the CPU.
  const StepGraph* step_graph() const { return step_ ? &*step_ : nullptr; }
  // What the network was built from: equal for equal architectures.
  uint64_t architecture() const { return architecture_; }

  // Bytes of weights, gradients, state and buffers that this holds.
  uint64_t resident_bytes();
  // The same with what a step needs beside them on a GPU, estimated: too much
  // rather than too little.
  uint64_t working_bytes();

 private:
  LossTotals train_ahead(int64_t end, const std::atomic<bool>& stop,
                         const AfterBatch& after_batch);
  BatchInWork train_without_waiting(const BatchRange& batch);
  at::Tensor compute_batch(const StepInputs& inputs, const JudgingKinds& kinds);
  LossTotals read(std::vector<BatchInWork>& batches) const;
  void prefetch();
  void check(const BatchPart& part) const;
  at::Tensor batch_images(int64_t samples);
  LossTotals judge(const at::Tensor& logits);
  AugmentKey augment_key(int64_t epoch) const;
  Targets targets() const;
  TrialFailure diverged_loss(double loss, const TrainingProgress& progress,
                             const BatchRange& batch) const;
  TrialFailure diverged_gradient(const TrainingProgress& progress,
                                 const BatchRange& batch) const;
  TrainingProgress progress() const {
    return {position_, count(), options_.epochs};
  }
  // As it was before a batch of the past.
  TrainingProgress progress_at(const BatchRange& batch) const {
    return {batch.epoch * count() + batch.first, count(), options_.epochs};
  }

  TrainSpec train_;
  Augmentation augment_;
  TrainerOptions options_;
  int classes_;
  BatchSource source_;
  BatchOrder order_;
  Loss loss_;
  uint64_t architecture_;
  std::vector<LayerSpec> layers_;
  Network network_;
  Optimizer optimizer_;
  std::optional<WeightAverage> average_;
  Tape tape_;
  std::optional<DeviceImages> device_images_;  // not on the CPU
  std::vector<PlannedImage> plan_;             // likewise; of the batch in work
  std::vector<std::string> dropouts_;          // likewise; the layers' names
  std::optional<StepGraph> step_;              // likewise
  at::Tensor images_;  // [largest batch, C, H, W], channels-last, on the CPU
  std::vector<int32_t> labels_;  // of the batch in work
  LabelMix mix_;                 // likewise
  PassContext pass_;             // likewise
  at::Tensor logits_gradient_;   // likewise; on the CPU
  int64_t position_ = 0;
};

// Equal for equal architectures of equal precision: what a checkpoint must
// agree on.
uint64_t architecture_of(const Recipe& recipe, const PreparedData& data);

// The layers that a recipe's model has on these data, checked. Throws
// Error(config).
std::vector<LayerSpec> layers_for(const ModelSpec& model,
                                  const PreparedData& data);

}  // namespace dtune
