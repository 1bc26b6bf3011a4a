#include <optional>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#ifdef DTUNE_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

#include "dtune/data_parallel/reducer.h"
#include "dtune/nn/host_span.h"

namespace dtune {
namespace {

at::Tensor part(const at::Tensor& gradient, const Bucket& bucket) {
  return gradient.narrow(0, bucket.begin, bucket.size());
}

// The cudaStream_t; null where LibTorch has none.
void* handle_of([[maybe_unused]] const c10::Stream& stream) {
#ifdef DTUNE_WITH_CUDA
  return c10::cuda::CUDAStream(stream).stream();
#else
  return nullptr;
#endif
}

// In memory of the CPU, where what has been computed is final at once.
class HostMover final : public BucketMover {
 public:
  HostMover(const at::Tensor& gradient, std::vector<Bucket> buckets)
      : values_(floats(gradient)), buckets_(std::move(buckets)) {}

  void mark_final(size_t /*bucket*/) override {}

  bool move(size_t bucket, const Reduction& reduction) override {
    const Bucket& range = buckets_[bucket];
    const std::span<float> values = values_.subspan(
        static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
    const auto scale = static_cast<float>(reduction.scale);
    if (scale != 1) {
      for (float& value : values) value *= scale;
    }
    reduction.group->all_reduce(values, reduction.patience);
    return true;
  }

 private:
  std::span<float> values_;
  std::vector<Bucket> buckets_;
};

// On a CUDA device. A stream of its own waits for each bucket's kernels alone,
// so later layers go on meanwhile. NCCL's groups queue the sums of device memory
// behind it, and the host waits once a round, since a rank that is missing has
// to be known before weights change. Without NCCL buckets travel through the
// CPU's memory.
class DeviceMover final : public BucketMover {
 public:
  DeviceMover(const at::Tensor& gradient, std::vector<Bucket> buckets)
      : gradient_(gradient),
        guard_(gradient.device().type()),
        stream_(guard_.getStreamFromGlobalPool(gradient.device(), false)) {
    for (const Bucket& bucket : buckets) {
      buckets_.push_back(part(gradient, bucket));
      finals_.emplace_back(gradient.device().type());
    }
  }

  void mark_final(size_t bucket) override {
    finals_[bucket].record(guard_.getStream(gradient_.device()));
  }

  bool move(size_t bucket, const Reduction& reduction) override {
    finals_[bucket].block(stream_);
    const c10::StreamGuard in_stream(stream_);
    const at::Tensor& values = buckets_[bucket];
    if (reduction.scale != 1) values.mul_(reduction.scale);
    if (reduction.group->size() == 1) return false;
    if (reduction.group->queues()) {
      reduction.group->queue_all_reduce(floats(values), handle_of(stream_),
                                        reduction.patience);
      return false;
    }
    const at::Tensor host = values.to(at::kCPU);
    reduction.group->all_reduce(floats(host), reduction.patience);
    values.copy_(host);
    stream_.synchronize();
    return true;
  }

  void finish(const Reduction& reduction) override {
    reduction.group->settle(reduction.patience);
    stream_.synchronize();
  }

 private:
  at::Tensor gradient_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
  std::vector<at::Tensor> buckets_;
  std::vector<c10::Event> finals_;
};

}  // namespace

std::unique_ptr<BucketMover> make_bucket_mover(const at::Tensor& gradient,
                                               std::vector<Bucket> buckets) {
  if (gradient.is_cpu()) {
    return std::make_unique<HostMover>(gradient, std::move(buckets));
  }
  return std::make_unique<DeviceMover>(gradient, std::move(buckets));
}

}  // namespace dtune
