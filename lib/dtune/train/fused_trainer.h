// Trials of one process that run at the same time: trained as one program on
// the CPU, side by side on other devices.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dtune/train/side_by_side.h"
#include "dtune/train/trainer.h"
#include "dtune/train/turns.h"

namespace dtune {

class FusedBatch;

// Thread-safe. Trainers of equal shape are computed together (fused_batch.h)
// for as long as they are in train_to: one of the calling threads computes
// batch after batch of all of them, the others wait for their ends. Trainers
// come and go between two batches. One that is alone, and a batch of another
// size than most (the last of an epoch), is trained by the trainer itself.
//
// Of equal shape are trainers with the same architecture, precision, device,
// number of samples, batch size and kind of optimizer (sgd or Adam's), which
// all have or have no moving average. Where there is not the memory for several
// at once, or there are too many channels, they take turns, batch by batch.
//
// On other devices than the CPU they compute side by side (side_by_side.h).
class FusedTrainer {
 public:
  FusedTrainer();
  ~FusedTrainer();

  // Trainer::train_to, with the same results up to rounding (the same to the
  // last bit where it is alone all the time). `together`, where given, holds
  // the number of trainers that are computed with it while it runs, itself
  // included. `after_batch` may be called on another thread, while the caller
  // waits.
  LossTotals train_to(Trainer& trainer, int64_t end,
                      const std::atomic<bool>& stop,
                      const Trainer::AfterBatch& after_batch = nullptr,
                      std::atomic<int>* together = nullptr);

 private:
  struct Job;
  struct Group;

  void lead(Group& group, const Job& own, std::unique_lock<std::mutex>& lock);
  SideBySide& beside(const at::Device& device);

  Turns computing_;  // by the leader of a group, for a batch
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Group>> groups_;  // by shape
  std::map<std::string, size_t> most_;        // by shape: that fit together
  std::map<std::string, SideBySide> beside_;  // by device
};

}  // namespace dtune
