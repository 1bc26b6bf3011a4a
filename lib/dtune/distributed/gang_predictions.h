// The predictions of a split's evaluation batches, given by several members.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/comm/collective.h"
#include "dtune/gang/messages.h"
#include "dtune/train/evaluate.h"

namespace dtune {

// Answers to one batch are the same each time: the last ones stay.
// Not thread-safe.
class GangPredictions {
 public:
  explicit GangPredictions(EvaluationBatches batches);

  int64_t batches() const { return batches_.count(); }
  void clear();  // another step: other weights
  // Predicts one batch. Throws Error(comm) where there is no such batch.
  void answer(Network& network, int64_t batch);
  // Predicts those batches that no member has.
  void complete(Network& network);

  // The answers to `own` (spans of batches, all answered), to be had by
  // `leader_rank`. All ranks in `ranks` call this.
  void gather(Collective& group, const std::vector<int>& ranks, int leader_rank,
              const std::vector<Span>& own, Duration patience);

  // As predict_all's. REQUIRES: all batches are answered.
  Predictions all() const;

 private:
  std::span<float> logits(const Span& span);
  void send(Collective& group, int to, const std::vector<Span>& own,
            Duration patience);
  void receive(Collective& group, int from, Duration patience);
  void check(const Span& span) const;

  EvaluationBatches batches_;
  std::vector<float> logits_;      // [samples, classes]
  std::vector<uint8_t> answered_;  // by batch
};

}  // namespace dtune
