// How an epoch is cut into batches: one rule for one process and for gangs.
#pragma once

#include <cstdint>

namespace dtune {

// One batch of an epoch.
struct BatchRange {
  int64_t epoch = 0;   // 0, 1, ...
  int64_t number = 0;  // of the batch since the start of the training
  int64_t first = 0;   // in the epoch's order
  int64_t size = 0;
};

// Epochs of `samples`, cut into batches of `batch_size`; the last batch of an
// epoch takes what remains (a remainder of one sample joins the batch before:
// batch norm needs two).
class BatchCutter {
 public:
  // REQUIRES: samples >= 1, batch_size >= 1.
  BatchCutter(int64_t samples, int64_t batch_size);

  // The batch that begins at or goes on over `position`, the number of samples
  // seen since the start.
  BatchRange at(int64_t position) const;
  int64_t samples() const { return samples_; }
  int64_t largest_batch() const;

 private:
  int64_t samples_;
  int64_t batch_size_;
  int64_t batches_;  // an epoch
};

}  // namespace dtune
