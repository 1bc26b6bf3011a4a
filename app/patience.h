// Tells the user what a command does, if it takes long.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "dtune/base/clock.h"

namespace dtune {

// Calls `say` once, on a thread of its own, if it lives longer than `limit`.
class Patience {
 public:
  explicit Patience(std::function<void()> say,
                    Duration limit = std::chrono::milliseconds(700));
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace dtune
