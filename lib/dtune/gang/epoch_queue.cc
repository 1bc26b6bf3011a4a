#include "dtune/gang/epoch_queue.h"

#include <algorithm>

#include "dtune/base/error.h"

namespace dtune::gang {
namespace {

std::vector<Span> moved(std::vector<Span> spans, int64_t by) {
  for (Span& span : spans) span.first += by;
  return spans;
}

}  // namespace

EpochQueue::EpochQueue(const BatchCutter& cutter, int64_t batch_size,
                       int64_t position, int64_t end)
    : cutter_(cutter),
      batch_size_(std::min(batch_size, cutter.samples())),
      start_(position),
      position_(position),
      queue_(cutter, position, end) {}

int64_t EpochQueue::segment_end() const {
  const int64_t epochs = position_ / cutter_.samples();
  return std::min(queue_.end(), (epochs + 1) * cutter_.samples());
}

QueuedBatch EpochQueue::next() const {
  DTUNE_CHECK(!done());
  const int64_t samples = cutter_.samples();
  QueuedBatch batch;
  batch.epoch = position_ / samples;
  batch.number = cutter_.at(start_).number + accepted_batches();
  batch.position = position_;
  // BatchCutter's rule for what remains: a remainder of one joins the batch
  // before it.
  const int64_t rest = segment_end() - position_;
  const bool joined = rest == batch_size_ + 1 && batch_size_ > 1;
  batch.size = joined ? rest : std::min(batch_size_, rest);
  batch.spans = merged(moved(queue_.peek(batch.size), -batch.epoch * samples));
  return batch;
}

void EpochQueue::accept(const std::vector<Span>& spans) {
  DTUNE_CHECK(samples_of(spans) > 0);
  log_.push_back(merged(spans));
  apply(log_.back());
}

void EpochQueue::apply(const std::vector<Span>& spans) {
  const QueuedBatch batch = next();
  const std::vector<Span> back = without(batch.spans, spans);
  queue_.skip(batch.size);
  for (const Span& span : moved(back, batch.epoch * cutter_.samples())) {
    queue_.give_back(span);
  }
  position_ += samples_of(spans);
  DTUNE_CHECK(queue_.left() == queue_.end() - position_);
}

void EpochQueue::keep(int64_t batches) {
  DTUNE_CHECK(batches >= 0 && batches <= accepted_batches());
  std::vector<std::vector<Span>> log = std::move(log_);
  log.resize(static_cast<size_t>(batches));
  log_.clear();
  queue_ = SampleQueue(cutter_, start_, queue_.end());
  position_ = start_;
  for (std::vector<Span>& spans : log) {
    apply(spans);
    log_.push_back(std::move(spans));
  }
}

}  // namespace dtune::gang
