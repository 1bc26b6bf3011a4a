// Several trainings of one shape computed as one on the CPU: their weights are
// rows, and a batch of each goes through a FusedNetwork.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "dtune/nn/fused_network.h"
#include "dtune/train/device_loss.h"
#include "dtune/train/fused_update.h"
#include "dtune/train/trainer.h"

namespace dtune {

// Not thread-safe. While it lives the weights, running statistics and optimizer
// states of its trainers are here; what a trainer itself has is as it was when
// it was taken in or stored last.
class FusedBatch {
 public:
  // REQUIRES: trainers of equal shape (fused_trainer.h), at least one.
  // Throws what LibTorch throws for a lack of memory, and Error(config) where
  // the channels of all are too many: the trainers are as they were.
  explicit FusedBatch(std::vector<Trainer*> trainers);

  // What a batch came to for one trainer.
  struct Result {
    LossTotals totals;
    std::exception_ptr failure;  // TrialFailure(diverged); null: trained
  };
  // Trains the next batch of each. A trainer that has failed is not to be used
  // again; its row stays, without meaning to others. REQUIRES: the batches are
  // of one size, nothing was released.
  std::vector<Result> train();

  // Gives a trainer what is its own; it may then train by itself until load().
  void store(size_t row);
  void load(size_t row);
  // Has nothing to do with this trainer any more, which may be gone.
  void release(size_t row) { trainers_[row] = nullptr; }

  // Null: released.
  const std::vector<Trainer*>& trainers() const { return trainers_; }

 private:
  // A trainer's tensor and all trainers' rows of it.
  struct Part {
    at::Tensor rows;
    std::vector<at::Tensor> own;
  };
  std::vector<Part*> parts();
  void make_rows();
  at::Tensor gather();
  at::Tensor compute_batch(const StepInputs& inputs, const JudgingKinds& kinds);
  void average(const at::Tensor& shares);

  std::vector<Trainer*> trainers_;
  FusedNetwork network_;
  Tape tape_;
  std::vector<OwnPass> each_;
  std::vector<std::string> dropouts_;  // the layers' names
  Part weights_;
  Part buffers_;
  Part first_;
  Part second_;           // without rows for sgd
  Part average_weights_;  // without rows where there is no average
  Part average_buffers_;
  at::Tensor l2_;
};

}  // namespace dtune
