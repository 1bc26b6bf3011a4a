#include "dtune/data/batches.h"

#include <algorithm>

#include "dtune/base/error.h"

namespace dtune {

BatchCutter::BatchCutter(int64_t samples, int64_t batch_size)
    : samples_(samples),
      batch_size_(std::min(batch_size, samples)),
      batches_((samples_ + batch_size_ - 1) / batch_size_) {
  DTUNE_CHECK(samples >= 1 && batch_size >= 1);
  if (batches_ > 1 && batch_size_ > 1 && samples_ % batch_size_ == 1) {
    --batches_;
  }
}

BatchRange BatchCutter::at(int64_t position) const {
  BatchRange batch;
  batch.epoch = position / samples_;
  const int64_t index =
      std::min(position % samples_ / batch_size_, batches_ - 1);
  batch.number = batch.epoch * batches_ + index;
  batch.first = index * batch_size_;
  batch.size = index == batches_ - 1 ? samples_ - batch.first : batch_size_;
  return batch;
}

int64_t BatchCutter::largest_batch() const {
  return std::min(samples_, batch_size_ + 1);
}

}  // namespace dtune
