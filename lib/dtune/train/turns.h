// A lock for threads that take turns.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace dtune {

// First come, first served: a thread that unlocks and locks again at once comes
// after all that wait, where std::mutex would mostly give it the lock and let
// them wait for as long as it goes on so. Thread-safe; not recursive.
class Turns {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const uint64_t own = next_++;
    changed_.wait(lock, [&] { return now_ == own; });
  }

  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++now_;
    }
    changed_.notify_all();
  }

  // Threads that wait.
  uint64_t waiting() const {
    const std::lock_guard lock(mutex_);
    return next_ > now_ ? next_ - now_ - 1 : 0;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;  // number of the next that comes
  uint64_t now_ = 0;   // whose turn it is
};

}  // namespace dtune
