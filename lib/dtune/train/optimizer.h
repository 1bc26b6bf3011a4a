// The optimizer of a network: its state and one step over the flat tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/nn/network.h"
#include "dtune/study/train_spec.h"
#include "dtune/train/fused_update.h"
#include "dtune/train/update_rule.h"

namespace dtune {

// What each weight's L2 is: train.l2, but 0 for biases and normalisation
// unless l2_on_all. Neighbours of equal strength are one run.
std::vector<DecayRun> decay_runs(std::span<const ParameterSlice> slices,
                                 const TrainSpec& train);

// The strength of each weight's L2, as `like`.
at::Tensor l2_tensor(std::span<const DecayRun> runs, const at::Tensor& like);

// Not thread-safe. The network must outlive this.
class Optimizer {
 public:
  Optimizer(const TrainSpec& train, Network& network);

  // One step with the network's gradients, which are zero afterwards; with
  // clip_norm c > 0 they are first scaled by min(1, c / (norm + 1e-6))
  // (Pascanu et al. 2012, arXiv 1211.5063, algorithm 1, as PyTorch has it).
  // Returns false, and changes nothing, if their norm is not finite.
  bool update(double lr);
  // The same where the network is a part of one whose gradient's norm is
  // `norm`.
  bool update(double lr, double norm);
  // The same by tensor operations on the network's device, which is not waited
  // for, with update_numbers of its one row there. Returns the gradient's norm,
  // [1] float64; if it is not finite, the weights are not either. It is for the
  // caller to count the update.
  at::Tensor update_ahead(const at::Tensor& numbers);

  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

  struct State {
    std::string name;
    at::Tensor values;  // [P], on the network's device; change in place
  };
  std::vector<State> state() const;
  const std::vector<DecayRun>& runs() const { return runs_; }

 private:
  std::optional<UpdateStep> next_step(double lr, double norm) const;
  FusedTensors rows();

  TrainSpec train_;
  Network& network_;
  std::vector<DecayRun> runs_;
  at::Tensor first_;
  at::Tensor second_;
  at::Tensor l2_;  // [P], only where updates are by tensor operations
  int64_t updates_ = 0;
};

}  // namespace dtune
