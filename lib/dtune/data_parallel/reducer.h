// Sums the gradients of ranks while they are being computed: a thread of its
// own reduces bucket after bucket, as the backward pass makes them final.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dtune/comm/collective.h"
#include "dtune/data_parallel/buckets.h"
#include "dtune/nn/network.h"

namespace dtune {

// How a round's gradients become one: that of rank i, times scale_i, summed
// over the group. With scale_i = W_i / W, where W_i sums the class weights of
// the samples of rank i (whose gradient is a mean by them) and W those of all,
// the sum is the gradient of the whole batch.
struct Reduction {
  Collective* group = nullptr;  // null: nothing is reduced
  double scale = 1;
  Duration patience{0};
};

// Moves buckets: scales each, sums it over the group, in place.
class BucketMover {
 public:
  virtual ~BucketMover() = default;
  // On the thread that computes: `bucket` is final in what it has started.
  virtual void mark_final(size_t bucket) = 0;
  // On the reducer's thread, after mark_final. False: it was only begun, and
  // finish() waits for it.
  virtual bool move(size_t bucket, const Reduction& reduction) = 0;
  // Likewise, after all buckets.
  virtual void finish(const Reduction& /*reduction*/) {}
};

// For the gradient's device. The gradient must outlive it.
std::unique_ptr<BucketMover> make_bucket_mover(const at::Tensor& gradient,
                                               std::vector<Bucket> buckets);

// For one thread, save that it has one itself. A round:
//   begin(decide); [compute] ready(layer)...; finish()
// Nothing is to be touched in the gradient from ready() to the end of finish().
class Reducer {
 public:
  // Called on the reducer's thread, first in each round; may wait and throw.
  using Decide = std::function<Reduction()>;
  // Called when a bucket has been reduced.
  using Reduced = std::function<void(size_t bucket, MonoTime begin)>;

  Reducer(Network& network, int64_t bucket_bytes, Reduced reduced);
  // `mover`: of these buckets.
  Reducer(Network& network, std::vector<Bucket> buckets, Reduced reduced,
          std::unique_ptr<BucketMover> mover);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  const std::vector<Bucket>& buckets() const { return buckets_; }

  void begin(Decide decide);
  // The gradient of top-level layer `layer`, and of all after it, is final.
  // True when the first bucket has just become so.
  bool ready(int layer);
  // Waits until all buckets are reduced. What decide() or the group threw is
  // thrown here. REQUIRES: ready(0) has been called, or cancel().
  void finish();
  // The backward pass failed: no bucket is begun any more.
  void cancel();

 private:
  void run();
  void work(const Decide& decide);
  bool wait_final(size_t bucket);

  std::vector<int64_t> begins_;  // by layer
  std::vector<Bucket> buckets_;
  std::unique_ptr<BucketMover> mover_;
  Reduced reduced_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Decide decide_;     // guarded by mutex_, as are those that follow
  size_t final_ = 0;  // buckets
  bool cancelled_ = false;
  bool working_ = false;
  bool ending_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace dtune
