#include "dtune/data/sample_queue.h"

#include <algorithm>

#include "dtune/base/error.h"

namespace dtune {
namespace {

int64_t size_of(const Portion& portion, int64_t left) {
  if (left <= std::max(portion.all, portion.usual)) return left;
  return std::max<int64_t>(portion.usual, 1);
}

}  // namespace

SampleQueue::SampleQueue(const BatchCutter& cutter, int64_t position,
                         int64_t end)
    : cutter_(cutter), cursor_(position), end_(position) {
  if (end <= position) return;
  const BatchRange last = batch_at(end - 1);
  end_ = start_of(last) + last.size;
}

Span SampleQueue::next_run() const {
  return returned_.empty() ? Span{cursor_, end_ - cursor_} : returned_.front();
}

std::optional<SamplePart> SampleQueue::take(const Portion& portion) {
  if (empty()) return std::nullopt;
  const Span run = next_run();
  const BatchRange batch = batch_at(run.first);
  const int64_t place = run.first - start_of(batch);
  const int64_t size = size_of(portion, std::min(run.size, batch.size - place));
  skip(size);
  return SamplePart{batch.epoch, batch.number, place, batch.first + place,
                    size};
}

void SampleQueue::give_back(const SamplePart& part) {
  give_back(Span{part.epoch * cutter_.samples() + part.first, part.size});
}

std::optional<int64_t> SampleQueue::next_batch() const {
  if (empty()) return std::nullopt;
  return batch_at(next_run().first).number;
}

int64_t SampleQueue::batch_left() const {
  if (empty()) return 0;
  const BatchRange batch = batch_at(next_run().first);
  const int64_t first = start_of(batch);
  const int64_t last = first + batch.size;
  int64_t samples = cursor_ < end_ ? std::max<int64_t>(0, last - cursor_) : 0;
  for (const Span& span : returned_) {
    if (span.first >= first && span.first < last) samples += span.size;
  }
  return samples;
}

std::vector<Span> SampleQueue::peek(int64_t size) const {
  DTUNE_CHECK(size <= left());
  const int64_t again = std::min(size, samples_of(returned_));
  std::vector<Span> spans = slice(returned_, 0, again);
  if (again < size) spans.push_back({cursor_, size - again});
  return spans;
}

void SampleQueue::skip(int64_t size) {
  DTUNE_CHECK(size <= left());
  const int64_t all = samples_of(returned_);
  const int64_t again = std::min(size, all);
  returned_ = slice(returned_, again, all - again);
  cursor_ += size - again;
}

void SampleQueue::give_back(const Span& span) {
  DTUNE_CHECK(span.size >= 1);
  // The oldest samples go first.
  const auto later =
      std::find_if(returned_.begin(), returned_.end(),
                   [&](const Span& other) { return other.first > span.first; });
  returned_.insert(later, span);
}

}  // namespace dtune
