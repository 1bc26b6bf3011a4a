#include "dtune/data_parallel/reducer.h"

#include <algorithm>
#include <utility>

namespace dtune {

namespace {

std::vector<Bucket> buckets_of(Network& network, int64_t bucket_bytes) {
  return cut_buckets(layer_begins(network.parameter_slices()),
                     network.gradients().numel(), bucket_bytes);
}

}  // namespace

Reducer::Reducer(Network& network, int64_t bucket_bytes, Reduced reduced)
    : Reducer(network, buckets_of(network, bucket_bytes), std::move(reduced),
              make_bucket_mover(network.gradients(),
                                buckets_of(network, bucket_bytes))) {}

Reducer::Reducer(Network& network, std::vector<Bucket> buckets, Reduced reduced,
                 std::unique_ptr<BucketMover> mover)
    : begins_(layer_begins(network.parameter_slices())),
      buckets_(std::move(buckets)),
      mover_(std::move(mover)),
      reduced_(std::move(reduced)),
      thread_([this] { run(); }) {}

Reducer::~Reducer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = cancelled_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Reducer::begin(Decide decide) {
  {
    const std::lock_guard lock(mutex_);
    decide_ = std::move(decide);
    final_ = 0;
    cancelled_ = false;
    working_ = true;
    error_ = nullptr;
  }
  changed_.notify_all();
}

bool Reducer::ready(int layer) {
  const size_t last = begins_.size() - 1;
  const int64_t begin = begins_[std::min(static_cast<size_t>(layer), last)];
  size_t final = final_;  // only this thread changes it
  while (final < buckets_.size() && buckets_[final].begin >= begin) {
    mover_->mark_final(final++);
  }
  const bool first = final_ == 0 && final > 0;
  if (final == final_) return false;
  {
    const std::lock_guard lock(mutex_);
    final_ = final;
  }
  changed_.notify_all();
  return first;
}

void Reducer::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !working_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Reducer::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

void Reducer::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || decide_; });
    if (ending_) return;
    const Decide decide = std::exchange(decide_, nullptr);
    lock.unlock();
    std::exception_ptr error;
    try {
      work(decide);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    working_ = false;
    changed_.notify_all();
  }
}

void Reducer::work(const Decide& decide) {
  const Reduction reduction = decide();
  if (reduction.group == nullptr) return;
  std::vector<std::pair<size_t, MonoTime>> begun;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (!wait_final(bucket)) return;
    const MonoTime begin = system_clock().now();
    if (mover_->move(bucket, reduction)) {
      reduced_(bucket, begin);
    } else {
      begun.emplace_back(bucket, begin);
    }
  }
  mover_->finish(reduction);
  for (const auto& [bucket, begin] : begun) reduced_(bucket, begin);
}

bool Reducer::wait_final(size_t bucket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cancelled_ || final_ > bucket; });
  return !cancelled_;
}

}  // namespace dtune
