#include "dtune/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace dtune {
namespace {

// What the threads of one loop share.
class Loop {
 public:
  Loop(size_t count, const std::function<void(size_t)>& body)
      : count_(count), body_(body) {}

  // Takes the next pass until none is left. Passes are taken in order: when
  // one fails, all smaller ones have been taken, so the smallest failure is
  // found.
  void work() {
    while (!failed_.load()) {
      const size_t i = next_.fetch_add(1);
      if (i >= count_) return;
      try {
        body_(i);
      } catch (...) {
        note_failure(i, std::current_exception());
      }
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void note_failure(size_t i, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_ || i < failed_at_) {
      failure_ = std::move(failure);
      failed_at_ = i;
    }
    failed_.store(true);
  }

  const size_t count_;
  const std::function<void(size_t)>& body_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;  // guarded by mutex_ while threads run
  size_t failed_at_ = 0;        // likewise
};

}  // namespace

size_t count_cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

void parallel_for(size_t count, const std::function<void(size_t)>& body,
                  size_t threads) {
  constexpr size_t kMostThreads = 64;
  const size_t useful = std::min({threads, count, kMostThreads});
  Loop loop(count, body);
  {
    std::vector<std::jthread> helpers;
    try {
      for (size_t i = 1; i < useful; ++i) {
        helpers.emplace_back([&loop] { loop.work(); });
      }
    } catch (const std::system_error&) {
      // No more threads to be had: those that run do it all.
    }
    loop.work();
  }
  loop.rethrow();
}

}  // namespace dtune
