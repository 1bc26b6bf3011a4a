// The samples of a fidelity step, handed out in parts, each exactly once: what
// is given back comes out again first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dtune/data/batches.h"
#include "dtune/data/spans.h"

namespace dtune {

// Samples of one batch that follow each other.
struct SamplePart {
  int64_t epoch = 0;
  int64_t number = 0;        // of the batch
  int64_t first_sample = 0;  // place in the batch
  int64_t first = 0;         // in the epoch's order
  int64_t size = 0;
};

// How much of what is left in a batch to take: all of it where it is at most
// `all` (so that no crumbs are left), else `usual`.
struct Portion {
  int64_t usual = 1;
  int64_t all = 1;
};

// Spans are of positions: samples since the start of the training. Not
// thread-safe.
class SampleQueue {
 public:
  // Whole batches from `position` on, until one ends at or after `end`.
  SampleQueue(const BatchCutter& cutter, int64_t position, int64_t end);

  int64_t end() const { return end_; }
  // Samples that take() will give.
  int64_t left() const { return end_ - cursor_ + samples_of(returned_); }
  bool empty() const { return left() == 0; }

  // --- In parts of batches.

  // Empty: nothing is left.
  std::optional<SamplePart> take(const Portion& portion);
  void give_back(const SamplePart& part);
  // The batch that the next part belongs to.
  std::optional<int64_t> next_batch() const;
  // Samples of that batch that are not taken.
  int64_t batch_left() const;

  // --- In spans, whatever their batches. REQUIRES: size <= left().

  std::vector<Span> peek(int64_t size) const;
  void skip(int64_t size);
  void give_back(const Span& span);

 private:
  BatchRange batch_at(int64_t position) const { return cutter_.at(position); }
  int64_t start_of(const BatchRange& batch) const {
    return batch.epoch * cutter_.samples() + batch.first;
  }
  Span next_run() const;

  BatchCutter cutter_;
  int64_t cursor_;              // first sample that was never handed out
  int64_t end_;                 // rounded up to a whole batch
  std::vector<Span> returned_;  // ascending
};

}  // namespace dtune
