// Trials of one process that share a device, each in its own thread and stream.
//
// On a GPU this is faster than one program for all: cuDNN has no good kernels
// for grouped convolutions (on an H100, eight trials of cnn-small took longer
// fused than one after the other), while kernels of several streams run at the
// same time where those of one leave the device idle.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "dtune/train/trainer.h"
#include "dtune/train/turns.h"

namespace dtune {

// Thread-safe.
class SideBySide {
 public:
  // memory: bytes that the trainers may take together on the device.
  explicit SideBySide(uint64_t memory) : memory_(memory) {}

  // Trainer::train_to, with the same results to the last bit. Those whose
  // memory is not there take turns with the others, Trainer::kAhead batches at a
  // time. `together`: null, or is set to the number of those that compute at the
  // same time, this one included.
  LossTotals train_to(Trainer& trainer, int64_t end,
                      const std::atomic<bool>& stop,
                      const Trainer::AfterBatch& after_batch,
                      std::atomic<int>* together);

 private:
  class Place;

  const uint64_t memory_;
  Turns entrance_;  // first come, first served
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t taken_ = 0;  // bytes, of those that compute
  int computing_ = 0;
};

}  // namespace dtune
