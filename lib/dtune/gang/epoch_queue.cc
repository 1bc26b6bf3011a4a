#include "dtune/gang/epoch_queue.h"

#include <algorithm>

#include "dtune/base/error.h"

namespace dtune::gang {

int64_t samples_of(std::span<const Span> spans) {
  int64_t sum = 0;
  for (const Span& span : spans) sum += span.size;
  return sum;
}

std::vector<Span> slice(std::span<const Span> spans, int64_t first,
                        int64_t size) {
  std::vector<Span> part;
  for (const Span& span : spans) {
    if (size == 0) break;
    const int64_t skipped = std::min(first, span.size);
    first -= skipped;
    const int64_t taken = std::min(size, span.size - skipped);
    size -= taken;
    if (taken > 0) part.push_back({span.first + skipped, taken});
  }
  DTUNE_CHECK(size == 0);
  return part;
}

std::vector<Span> merged(std::vector<Span> spans) {
  std::erase_if(spans, [](const Span& span) { return span.size == 0; });
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.first < b.first; });
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() &&
        result.back().first + result.back().size == span.first) {
      result.back().size += span.size;
    } else {
      result.push_back(span);
    }
  }
  return result;
}

std::vector<Span> without(const std::vector<Span>& from,
                          const std::vector<Span>& what) {
  std::vector<Span> rest;
  size_t next = 0;
  for (const Span& span : from) {
    int64_t at = span.first;
    const int64_t end = span.first + span.size;
    for (; next < what.size() && what[next].first < end; ++next) {
      const Span& hole = what[next];
      DTUNE_CHECK(hole.first >= at && hole.first + hole.size <= end);
      if (hole.first > at) rest.push_back({at, hole.first - at});
      at = hole.first + hole.size;
    }
    if (at < end) rest.push_back({at, end - at});
  }
  DTUNE_CHECK(next == what.size());
  return rest;
}

EpochQueue::EpochQueue(const BatchCutter& cutter, int64_t batch_size,
                       int64_t position, int64_t end)
    : cutter_(cutter),
      batch_size_(std::min(batch_size, cutter.samples())),
      start_(position),
      end_(position),
      position_(position),
      cursor_(position) {
  if (end > position) {
    const BatchRange last = cutter_.at(end - 1);
    end_ = last.epoch * cutter_.samples() + last.first + last.size;
  }
}

int64_t EpochQueue::segment_end() const {
  const int64_t epochs = position_ / cutter_.samples();
  return std::min(end_, (epochs + 1) * cutter_.samples());
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
  const int64_t again = std::min(batch.size, samples_of(returned_));
  batch.spans = slice(returned_, 0, again);
  if (again < batch.size) {
    batch.spans.push_back({cursor_ % samples, batch.size - again});
  }
  batch.spans = merged(std::move(batch.spans));
  return batch;
}

void EpochQueue::accept(const std::vector<Span>& spans) {
  DTUNE_CHECK(samples_of(spans) > 0);
  log_.push_back(merged(spans));
  apply(log_.back());
}

void EpochQueue::apply(const std::vector<Span>& spans) {
  const QueuedBatch batch = next();
  const int64_t again = std::min(batch.size, samples_of(returned_));
  std::vector<Span> back = without(batch.spans, spans);
  const std::vector<Span> untouched =
      slice(returned_, again, samples_of(returned_) - again);
  back.insert(back.end(), untouched.begin(), untouched.end());
  returned_ = merged(std::move(back));
  cursor_ += batch.size - again;
  position_ += samples_of(spans);
  DTUNE_CHECK(cursor_ == position_ + samples_of(returned_));
}

void EpochQueue::keep(int64_t batches) {
  DTUNE_CHECK(batches >= 0 && batches <= accepted_batches());
  std::vector<std::vector<Span>> log = std::move(log_);
  log.resize(static_cast<size_t>(batches));
  log_.clear();
  returned_.clear();
  position_ = cursor_ = start_;
  for (std::vector<Span>& spans : log) {
    apply(spans);
    log_.push_back(std::move(spans));
  }
}

}  // namespace dtune::gang
