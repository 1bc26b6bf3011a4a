#include "dtune/train/side_by_side.h"

#include <algorithm>

namespace dtune {

// Memory of the device for as long as it lives. One that needs more than there
// is gets it while no other has any.
class SideBySide::Place {
 public:
  Place(SideBySide& all, uint64_t bytes)
      : all_(all), bytes_(std::min(bytes, all.memory_)) {
    const std::lock_guard first(all_.entrance_);
    std::unique_lock lock(all_.mutex_);
    all_.changed_.wait(lock,
                       [&] { return all_.taken_ <= all_.memory_ - bytes_; });
    all_.taken_ += bytes_;
    together_ = ++all_.computing_;
  }
  ~Place() {
    const std::lock_guard lock(all_.mutex_);
    all_.taken_ -= bytes_;
    --all_.computing_;
    all_.changed_.notify_all();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  int together() const { return together_; }

 private:
  SideBySide& all_;
  uint64_t bytes_;
  int together_ = 0;
};

LossTotals SideBySide::train_to(Trainer& trainer, int64_t end,
                                const std::atomic<bool>& stop,
                                const Trainer::AfterBatch& after_batch,
                                std::atomic<int>* together) {
  const uint64_t bytes = trainer.working_bytes();
  const int64_t ahead =
      (int64_t{Trainer::kAhead} - 1) * trainer.train_spec().batch_size;
  LossTotals totals;
  while (trainer.position() < end) {
    const Place place(*this, bytes);
    if (together != nullptr) *together = place.together();
    const int64_t next = std::min(end, trainer.position() + 1 + ahead);
    totals += trainer.train_to(next, stop, after_batch);
  }
  return totals;
}

}  // namespace dtune
