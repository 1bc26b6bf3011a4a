#include "dtune/store/write_queue.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace dtune {
namespace {

// Bounds what one transaction holds in memory and how long an acknowledgement
// can wait for its neighbours.
constexpr size_t kLargestGroup = 4096;

// 0.1 s, 0.2 s, ... 5 s.
std::chrono::milliseconds pause_after(uint64_t failures) {
  using std::chrono::milliseconds;
  constexpr milliseconds kShortest{100};
  constexpr milliseconds kLongest{5000};
  return std::min(kLongest, kShortest * (1 << std::min<uint64_t>(failures, 7)));
}

}  // namespace

WriteQueue::WriteQueue(Commit commit, size_t capacity)
    : commit_(std::move(commit)),
      capacity_(capacity),
      thread_([this] { run(); }) {}

WriteQueue::~WriteQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  thread_.join();
}

void WriteQueue::push(WriteOp op) {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [this] {
    return queue_.size() < capacity_ || in_a_row_ > 0 || depth_ > 0;
  });
  op.with_next = depth_ > 0;
  queue_.push_back(std::move(op));
  ++pushed_;
  work_.notify_one();
  throw_problem(lock);
}

void WriteQueue::begin_group() {
  const std::lock_guard lock(mutex_);
  if (depth_++ == 0) open_from_ = pushed_;
}

void WriteQueue::end_group() {
  const std::lock_guard lock(mutex_);
  if (--depth_ > 0) return;
  if (pushed_ > open_from_ && !queue_.empty()) queue_.back().with_next = false;
  work_.notify_one();
}

// Number of the last operation, counted as pushed_ does, that may be written.
uint64_t WriteQueue::ready() const {
  return depth_ > 0 && !stopping_ ? open_from_ : pushed_;
}

void WriteQueue::flush() {
  std::unique_lock lock(mutex_);
  throw_problem(lock);
  const uint64_t target = ready();
  const uint64_t failures = failures_;
  urgent_ = true;
  work_.notify_one();
  progress_.wait(lock, [&] {
    return written_ >= target || failures_ != failures || problem_.has_value();
  });
  throw_problem(lock);
}

void WriteQueue::raise() {
  std::unique_lock lock(mutex_);
  throw_problem(lock);
}

void WriteQueue::throw_problem(std::unique_lock<std::mutex>& lock) {
  if (!problem_) return;
  const Error problem = *std::exchange(problem_, std::nullopt);
  lock.unlock();
  throw problem;
}

void WriteQueue::note_failure(const Error& error) {
  ++failures_;
  ++in_a_row_;
  problem_ = error;
}

void WriteQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || ready() > written_; });
    if (in_a_row_ > 0 && !stopping_) {
      work_.wait_for(lock, pause_after(in_a_row_ - 1),
                     [this] { return stopping_ || urgent_; });
    }
    urgent_ = false;
    if (queue_.empty()) return;  // stopping
    write_group(lock);
    if (stopping_ && in_a_row_ > 0) return;  // the last try has failed
  }
}

void WriteQueue::write_group(std::unique_lock<std::mutex>& lock) {
  const auto limit =
      queue_.begin() + static_cast<std::ptrdiff_t>(ready() - written_);
  auto end = queue_.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(
                                  ready() - written_, kLargestGroup));
  while (end != limit && std::prev(end)->with_next) ++end;
  std::vector<WriteOp> group(std::make_move_iterator(queue_.begin()),
                             std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  lock.unlock();

  std::optional<Error> failure;
  std::optional<Error> rejected;
  try {
    rejected = commit_(group);
  } catch (const Error& error) {
    failure = error;
  } catch (const std::bad_alloc&) {
    failure = Error(ErrorKind::temporary, "no memory left to write records");
  } catch (const std::exception& error) {
    failure = Error(ErrorKind::internal, error.what());
  }
  if (!failure) {
    for (const WriteOp& op : group) {
      if (op.on_commit && !op.refused) op.on_commit();
    }
  }

  lock.lock();
  if (failure) {  // the same group again, before what has come meanwhile
    queue_.insert(queue_.begin(), std::make_move_iterator(group.begin()),
                  std::make_move_iterator(group.end()));
    note_failure(*failure);
  } else {
    in_a_row_ = 0;
    written_ += group.size();
    if (rejected) problem_ = std::move(rejected);
  }
  progress_.notify_all();
}

}  // namespace dtune
