// Trains one network: batches in, weights changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/nn/network.h"
#include "dtune/study/recipe.h"
#include "dtune/train/batch_source.h"
#include "dtune/train/loss.h"
#include "dtune/train/metrics.h"
#include "dtune/train/optimizer.h"

namespace dtune {

struct TrainerOptions {
  uint64_t seed = 0;  // of weights, order, augmentation and dropout
  double epochs = 1;  // of the whole training: what schedules go by
  at::Device device = at::kCPU;
  bool with_validation = false;  // train on the validation split too
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
  // Samples seen since the start: always at a batch's end.
  int64_t position() const { return position_; }
  void set_position(int64_t position) { position_ = position; }

  // Trains whole batches until position() >= end. Throws StepStopped if `stop`
  // is set, which is looked at before each batch, and TrialFailure(diverged) if
  // the loss or the gradient is no finite number; both leave the weights as
  // they are then.
  // `after_batch` is told the position after each batch.
  using AfterBatch = std::function<void(int64_t position)>;
  LossTotals train_to(int64_t end, const std::atomic<bool>& stop,
                      const AfterBatch& after_batch = nullptr);

  Network& network() { return network_; }
  Optimizer& optimizer() { return optimizer_; }
  // What the network was built from: equal for equal architectures.
  uint64_t architecture() const { return architecture_; }

  // Bytes of weights, gradients, state and buffers that this holds.
  uint64_t resident_bytes();

 private:
  LossTotals train_batch(const BatchRange& batch);
  [[noreturn]] void fail_diverged(const char* what, double value,
                                  const BatchRange& batch) const;
  double learning_rate(const BatchRange& batch) const;

  TrainSpec train_;
  Augmentation augment_;
  TrainerOptions options_;
  int classes_;
  BatchSource source_;
  BatchOrder order_;
  Loss loss_;
  uint64_t architecture_;
  Network network_;
  Optimizer optimizer_;
  Tape tape_;
  at::Tensor images_;  // [largest batch, C, H, W], channels-last, on the CPU
  std::vector<int32_t> labels_;
  int64_t position_ = 0;
};

// The layers that a recipe's model has on these data, checked. Throws
// Error(config).
std::vector<LayerSpec> layers_for(const ModelSpec& model,
                                  const PreparedData& data);

}  // namespace dtune
