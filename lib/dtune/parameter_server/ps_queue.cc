#include "dtune/parameter_server/ps_queue.h"

#include <algorithm>

#include "dtune/base/error.h"

namespace dtune {
namespace {

// The first `size` samples of a part; the part keeps the others.
PsPart split_off(PsPart& part, int64_t size) {
  PsPart taken = part;
  taken.size = size;
  part.first += size;
  part.first_sample += size;
  part.size -= size;
  return taken;
}

int64_t size_of(const PsPortion& portion, int64_t left) {
  if (left <= std::max(portion.all, portion.usual)) return left;
  return std::max<int64_t>(portion.usual, 1);
}

}  // namespace

PsQueue::PsQueue(const BatchCutter& cutter, int64_t position, int64_t end)
    : cutter_(cutter), position_(position), end_(position) {
  while (end_ < end) end_ += cutter_.at(end_).size;
}

PsPart PsQueue::whole_batch() const {
  const BatchRange batch = cutter_.at(position_);
  return {batch.epoch, batch.number, 0, batch.first, batch.size};
}

std::optional<PsPart> PsQueue::take(const PsPortion& portion) {
  if (!returned_.empty()) {
    PsPart& part = returned_.front();
    const PsPart taken = split_off(part, size_of(portion, part.size));
    if (part.size == 0) returned_.erase(returned_.begin());
    return taken;
  }
  if (position_ >= end_) return std::nullopt;
  PsPart rest = whole_batch();
  const int64_t batch_size = rest.size;
  split_off(rest, taken_);
  const PsPart taken = split_off(rest, size_of(portion, rest.size));
  taken_ += taken.size;
  if (taken_ == batch_size) {
    position_ += batch_size;
    taken_ = 0;
  }
  return taken;
}

void PsQueue::give_back(const PsPart& part) {
  DTUNE_CHECK(part.size >= 1);
  // In the epoch's order, so that the oldest samples go first.
  const auto later = std::find_if(
      returned_.begin(), returned_.end(), [&](const PsPart& other) {
        return other.number > part.number ||
               (other.number == part.number && other.first > part.first);
      });
  returned_.insert(later, part);
}

std::optional<int64_t> PsQueue::next_batch() const {
  if (!returned_.empty()) return returned_.front().number;
  if (position_ < end_) return cutter_.at(position_).number;
  return std::nullopt;
}

int64_t PsQueue::batch_left() const {
  const auto number = next_batch();
  if (!number) return 0;
  int64_t samples = 0;
  if (position_ < end_ && cutter_.at(position_).number == *number) {
    samples = cutter_.at(position_).size - taken_;
  }
  for (const PsPart& part : returned_) {
    if (part.number == *number) samples += part.size;
  }
  return samples;
}

int64_t PsQueue::left() const {
  int64_t samples = end_ - position_ - taken_;
  for (const PsPart& part : returned_) samples += part.size;
  return samples;
}

}  // namespace dtune
