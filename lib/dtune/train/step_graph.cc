#include "dtune/train/step_graph.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>

#include <fmt/format.h>
#ifdef DTUNE_WITH_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#endif

#include "dtune/nn/transfer.h"
#include "dtune/train/device.h"
#include "dtune/train/failure.h"

namespace dtune {
namespace {

bool are_wanted() {
  const char* text = std::getenv("DTUNE_CUDA_GRAPHS");
  return text == nullptr || std::string_view(text) != "off";
}

constexpr std::array kInputs = {&StepInputs::images, &StepInputs::judging,
                                &StepInputs::masks, &StepInputs::update};

StepInputs sent(StepInputs inputs, const at::Device& device) {
  for (const auto input : kInputs) {
    inputs.*input = send(inputs.*input, device);
  }
  return inputs;
}

// The work, called again.
class Called final : public Recording {
 public:
  void record(const std::function<at::Tensor()>& work) override {
    work_ = work;
  }
  at::Tensor repeat() override {
    const NoTransfers none;
    const at::Tensor result = work_();
    if (!result_.defined()) result_ = at::empty_like(result);
    return result_.copy_(result);
  }

 private:
  std::function<at::Tensor()> work_;
  at::Tensor result_;
};

#ifdef DTUNE_WITH_CUDA
class CudaGraph final : public Recording {
 public:
  explicit CudaGraph(const at::Device& device) : device_(device) {}

  void record(const std::function<at::Tensor()>& work) override {
    const NoTransfers none;
    const c10::cuda::CUDAGuard guard(device_);
    // While one is recorded no other may free memory that is cached.
    static std::mutex one_at_a_time;
    const std::lock_guard only(one_at_a_time);
    make_room();
    const c10::cuda::CUDAStreamGuard aside(recording_stream());
    // Other threads may use the device meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      result_ = work();
    } catch (...) {
      end_failed();
      throw;
    }
    graph_.capture_end();
  }

  at::Tensor repeat() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.replay();
    return result_;
  }

 private:
  // Nothing else uses it: LibTorch's pool has few streams, and what another
  // thread gives to one of them while it records would be recorded, too.
  // REQUIRES: one thread at a time.
  c10::cuda::CUDAStream recording_stream() const {
    static std::map<c10::DeviceIndex, cudaStream_t> streams;
    const auto [found, is_new] = streams.try_emplace(device_.index());
    if (is_new) {
      C10_CUDA_CHECK(
          cudaStreamCreateWithFlags(&found->second, cudaStreamNonBlocking));
    }
    return c10::cuda::getStreamFromExternal(found->second, device_.index());
  }

  // A graph keeps what its steps allocate. Others, as an epoch's last batch,
  // need as much beside it. It cannot take what is cached; to give that back
  // waits for the device, and so for the trials beside this one.
  void make_room() const {
    const auto stats =
        c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
    const uint64_t limit = memory_limit(device_);
    const auto most = static_cast<uint64_t>(stats.allocated_bytes[0].peak);
    if (2 * most > limit) {
      throw Error(ErrorKind::trial, "they would take too much memory");
    }
    const auto held = static_cast<uint64_t>(stats.reserved_bytes[0].current);
    if (4 * held > limit) c10::cuda::CUDACachingAllocator::emptyCache();
  }

  // The stream has to be given back.
  void end_failed() {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      // What failed first says why.
    }
  }

  at::Device device_;
  at::cuda::CUDAGraph graph_;
  at::Tensor result_;
};
#endif

}  // namespace

std::map<std::string, at::Tensor> masks_by_layer(
    const StepInputs& inputs, const std::vector<std::string>& layers) {
  std::map<std::string, at::Tensor> masks;
  for (size_t i = 0; i < layers.size(); ++i) {
    masks[layers[i]] = inputs.masks[static_cast<int64_t>(i)];
  }
  return masks;
}

std::unique_ptr<Recording> make_recording(const at::Device& device) {
  if (!are_wanted()) return nullptr;
#ifdef DTUNE_WITH_CUDA
  if (device.is_cuda()) return std::make_unique<CudaGraph>(device);
#endif
  DTUNE_CHECK(device.is_cpu());
  return std::make_unique<Called>();
}

StepGraph::StepGraph(const at::Device& device, int64_t samples,
                     std::unique_ptr<Recording> recording)
    : device_(device), samples_(samples), recording_(std::move(recording)) {}

at::Tensor StepGraph::run(const StepInputs& inputs, const Work& work) {
  if (is_due(inputs)) record(inputs, work);
  if (!inputs_ || inputs.images.size(0) != samples_) {
    return work(sent(inputs, device_));
  }
  for (const auto input : kInputs) {
    ((*inputs_).*input).copy_(inputs.*input, /*non_blocking=*/true);
  }
  ++repeated_;
  return recording_->repeat().clone();
}

// The handles of libraries, and the kernels that they have chosen, are each
// thread's own.
bool StepGraph::is_due(const StepInputs& inputs) {
  const bool usual = inputs.images.size(0) == samples_;
  if (recording_ == nullptr || inputs_ || !usual) return false;
  const std::thread::id here = std::this_thread::get_id();
  if (here != by_) by_thread_ = 0;
  by_ = here;
  const bool is_late = done_++ >= (device_.is_cpu() ? kFirstOnCpu : kFirst);
  const bool is_used = by_thread_++ >= kFirstOfThread;
  return is_late && is_used;
}

void StepGraph::record(const StepInputs& inputs, const Work& work) {
  StepInputs own = sent(inputs, device_);
  for (const auto input : kInputs) own.*input = (own.*input).clone();
  try {
    recording_->record([work, own] { return work(own); });
    inputs_ = std::move(own);
  } catch (const std::exception& error) {
    recording_ = nullptr;
    static std::once_flag once;
    std::call_once(once, [&] {
      fmt::print(stderr, "steps are not recorded as CUDA graphs: {}\n",
                 first_line(error));
    });
  }
}

}  // namespace dtune
