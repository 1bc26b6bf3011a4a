// Sums by GPUs of this machine, one for each rank.
#include <algorithm>

#include "app/comm_work.h"
#include <cuda_runtime_api.h>
#include <fmt/core.h>

namespace dtune {
namespace {

void expect(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw Error(ErrorKind::comm, fmt::format("bench comm: CUDA {}: {}", what,
                                           cudaGetErrorString(result)));
}

// Small whole numbers, so that the sum is exact in any order.
float value(size_t place, int rank) {
  return static_cast<float>((place * 7 + static_cast<size_t>(rank) * 3) % 101);
}

class NcclSum final : public CommWork {
 public:
  explicit NcclSum(std::unique_ptr<Collective> group)
      : group_(std::move(group)) {}
  ~NcclSum() override { cudaFree(data_); }
  NcclSum(const NcclSum&) = delete;
  NcclSum& operator=(const NcclSum&) = delete;

  bool is_sum() const override { return true; }

  void prepare(uint64_t bytes) override {
    expect(cudaFree(data_), "memory");
    data_ = nullptr;
    count_ = bytes / sizeof(float);
    // At least a number, for agree().
    const size_t size = std::max(count_, size_t{1}) * sizeof(float);
    expect(cudaMalloc(reinterpret_cast<void**>(&data_), size), "memory");
    expect(cudaMemset(data_, 0, size), "memory");
  }

  void once() override { group_->all_reduce({data_, count_}, kCommPatience); }

  uint64_t check() override {
    std::vector<float> array(count_);
    for (size_t i = 0; i < count_; ++i) array[i] = value(i, group_->rank());
    copy(data_, array.data(), count_);
    once();
    copy(array.data(), data_, count_);
    uint64_t wrong = 0;
    for (size_t i = 0; i < count_; ++i) {
      float sum = 0;
      for (int rank = 0; rank < group_->size(); ++rank) sum += value(i, rank);
      if (array[i] != sum) ++wrong;
    }
    return sum_of(wrong);
  }

  uint64_t agree(uint64_t number) override {
    return sum_of(group_->rank() == 0 ? number : 0);
  }

 private:
  void copy(float* to, const float* from, size_t count) {
    expect(cudaMemcpy(to, from, count * sizeof(float), cudaMemcpyDefault),
           "copy");
  }

  // Exact below 2^24. Leaves the first element at zero.
  uint64_t sum_of(uint64_t number) {
    float sum = static_cast<float>(number);
    copy(data_, &sum, 1);
    group_->all_reduce({data_, 1}, kCommPatience);
    copy(&sum, data_, 1);
    expect(cudaMemset(data_, 0, sizeof(float)), "memory");
    return static_cast<uint64_t>(sum);
  }

  std::unique_ptr<Collective> group_;
  float* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace

std::unique_ptr<CommWork> make_nccl_sum_work(const CommRank& rank,
                                             RendezvousStore& store) {
  return std::make_unique<NcclSum>(
      make_nccl_group({.rank = rank.rank,
                       .size = rank.ranks,
                       .name = "bench",
                       .connect_timeout = kCommPatience},
                      rank.rank, store));
}

}  // namespace dtune
