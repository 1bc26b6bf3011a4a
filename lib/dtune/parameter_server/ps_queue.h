// The samples of a fidelity step, handed out in parts that any worker may
// take. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dtune/data/batches.h"

namespace dtune {

// Samples of one batch that follow each other.
struct PsPart {
  int64_t epoch = 0;
  int64_t number = 0;        // of the batch
  int64_t first_sample = 0;  // place in the batch
  int64_t first = 0;         // in the epoch's order
  int64_t size = 0;
};

// How much of what is left in a batch to take: all of it where it is at most
// `all` (so that no crumbs are left), else `usual`.
struct PsPortion {
  int64_t usual = 1;
  int64_t all = 1;
};

// Not thread-safe.
class PsQueue {
 public:
  // Whole batches from `position` on, until one ends at or after `end`.
  PsQueue(const BatchCutter& cutter, int64_t position, int64_t end);

  // What was given back comes first. Empty: nothing is left.
  std::optional<PsPart> take(const PsPortion& portion);
  void give_back(const PsPart& part);

  // The batch that the next part belongs to.
  std::optional<int64_t> next_batch() const;
  bool empty() const { return !next_batch(); }
  // Samples of that batch that nobody has.
  int64_t batch_left() const;
  // Samples that take() will give.
  int64_t left() const;

 private:
  PsPart whole_batch() const;

  BatchCutter cutter_;
  int64_t position_;   // of the batch that is being handed out
  int64_t end_;        // of the last batch
  int64_t taken_ = 0;  // samples of that batch
  std::vector<PsPart> returned_;
};

}  // namespace dtune
