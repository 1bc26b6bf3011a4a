// The samples of a fidelity step, handed out batch by batch.
#pragma once

#include <cstdint>
#include <vector>

#include "dtune/data/sample_queue.h"

namespace dtune::gang {

// A batch as a whole, before it is shared out.
struct QueuedBatch {
  int64_t epoch = 0;
  int64_t number = 0;    // counts rounds of training
  int64_t position = 0;  // samples accepted before it
  int64_t size = 0;
  std::vector<Span> spans;  // of the epoch's order
};

// While nothing is dropped, batches are BatchCutter's. What is dropped goes
// back and comes out again first, within the same epoch and step; so whenever
// done(), exactly the samples of whole batches before `end` are accepted, which
// is what one process would have trained.
//
// Batches can be undone: a gang that loses the holder of its newest state goes
// back to what a survivor holds.
class EpochQueue {
 public:
  // Of a step that goes on from `position` until at least `end` (samples since
  // the start of the training), in whole batches.
  EpochQueue(const BatchCutter& cutter, int64_t batch_size, int64_t position,
             int64_t end);

  bool done() const { return position_ >= queue_.end(); }
  int64_t position() const { return position_; }
  // Batches that count.
  int64_t accepted_batches() const { return static_cast<int64_t>(log_.size()); }

  // The next batch; stays the same until accept(). REQUIRES: !done().
  QueuedBatch next() const;

  // Of the batch from next(), `spans` count; the others go back. REQUIRES: they
  // are parts of it, and at least one sample.
  void accept(const std::vector<Span>& spans);

  // Undoes all but the first `batches` that were accepted. REQUIRES: not more
  // than accepted_batches().
  void keep(int64_t batches);

 private:
  void apply(const std::vector<Span>& spans);
  int64_t segment_end() const;  // of what may be handed out in this epoch

  BatchCutter cutter_;
  int64_t batch_size_;
  int64_t start_;
  int64_t position_;  // samples accepted
  SampleQueue queue_;
  std::vector<std::vector<Span>> log_;  // accepted, batch by batch
};

}  // namespace dtune::gang
