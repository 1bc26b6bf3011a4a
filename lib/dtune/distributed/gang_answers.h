// The answers to a split's evaluation batches, given by several members.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/comm/collective.h"
#include "dtune/gang/messages.h"
#include "dtune/train/evaluate.h"

namespace dtune {

// Who has answered a batch twice has the same answers: the last stay.
// Not thread-safe.
class GangAnswers {
 public:
  explicit GangAnswers(EvaluationBatches batches);

  int64_t batches() const { return batches_.count(); }
  void clear();  // another step: other weights
  // Answers one batch. Throws Error(comm) where there is no such batch.
  void answer(Network& network, int64_t batch);
  // Answers those batches that nobody has.
  void complete(Network& network);

  // The answers to `own` (spans of batches, all answered), to be had by
  // `lead_rank`. All ranks in `ranks` call this.
  void gather(Collective& group, const std::vector<int>& ranks, int lead_rank,
              const std::vector<Span>& own, Duration patience);

  // As answer_all's. REQUIRES: all batches are answered.
  Answers all() const;

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
