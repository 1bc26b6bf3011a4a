#include "app/patience.h"

namespace dtune {

Patience::Patience(std::function<void()> say, Duration limit)
    : thread_([this, say = std::move(say), limit] {
        std::unique_lock lock(mutex_);
        if (!over_.wait_for(lock, limit, [this] { return done_; })) say();
      }) {}

Patience::~Patience() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  over_.notify_one();
  thread_.join();
}

}  // namespace dtune
