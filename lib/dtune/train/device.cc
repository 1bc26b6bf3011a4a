#include "dtune/train/device.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#ifdef DTUNE_WITH_CUDA
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/train/failure.h"

namespace dtune {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr const char* kSlotDevice = "DTUNE_SLOT_DEVICE";

int cuda_count() {
  if (!at::hasCUDA() || !c10::impl::hasDeviceGuardImpl(at::kCUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(at::kCUDA)->deviceCount();
}

[[noreturn]] void fail(const std::string& text, const std::string& what) {
  throw Error(ErrorKind::config,
              fmt::format("train.device: '{}' {}", text, what));
}

// The ordinal of "cuda" or "cuda:n".
int parse_ordinal(const std::string& text) {
  const std::string_view view = text;
  if (view == kCuda) return 0;
  int ordinal = -1;
  if (view.starts_with("cuda:")) {
    ordinal = parse_number<int>(view.substr(kCuda.size() + 1)).value_or(-1);
  }
  if (ordinal < 0) {
    fail(text, "is not a device (use auto, cpu, cuda or cuda:<number>)");
  }
  // A slot sees its own GPU alone.
  return std::getenv(kSlotDevice) != nullptr ? 0 : ordinal;
}

// One sum on the device: a driver that is too old, a GPU that this LibTorch has
// no code for, and one that another process has to itself are found here.
std::string problem_of(const at::Device& device) {
  try {
    const double sum =
        at::ones({2}, at::TensorOptions(device)).sum().item<double>();
    return sum == 2 ? "" : "it computes wrong sums";
  } catch (const std::exception& error) {
    return first_line(error);
  }
}

void limit_memory([[maybe_unused]] const at::Device& device) {
#ifdef DTUNE_WITH_CUDA
  const double share = device_share(std::getenv("DTUNE_DEVICE_SHARE"));
  if (share < 1) {
    c10::cuda::CUDACachingAllocator::setMemoryFraction(share, device.index());
  }
#endif
}

void check_ordinal(const std::string& text, int ordinal, int count) {
  if (ordinal < count) return;
  fail(text,
       fmt::format("is not there: this machine has {} CUDA device{} "
                   "(use cuda:0{})",
                   count, count > 1 ? "s" : "",
                   count > 1 ? fmt::format(" to cuda:{}", count - 1) : ""));
}

}  // namespace

double device_share(const char* text) {
  if (text == nullptr) return 1;
  const double share = std::strtod(text, nullptr);
  return 0 < share && share < 1 ? share : 1;
}

uint64_t memory_limit(const at::Device& device) {
  if (!device.is_cuda()) return UINT64_MAX;
#ifdef DTUNE_WITH_CUDA
  const c10::DeviceGuard guard(device);
  size_t free = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  const double share = device_share(std::getenv("DTUNE_DEVICE_SHARE"));
  return static_cast<uint64_t>(share * static_cast<double>(total));
#else
  return 0;
#endif
}

std::optional<c10::Stream> own_stream(const at::Device& device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::getDeviceGuardImpl(device.type())
      ->getStreamFromGlobalPool(device);
}

std::string cuda_problem() {
  if (!at::hasCUDA()) {
    return "this LibTorch is built without CUDA (build dtune with a CUDA "
           "LibTorch)";
  }
  if (cuda_count() == 0) {
    return "LibTorch finds no CUDA device (what does nvidia-smi say?)";
  }
  const std::string problem = problem_of(at::Device(at::kCUDA, 0));
  return problem.empty() ? "" : "LibTorch cannot use the GPU: " + problem;
}

DeviceChoice choose_device(const std::string& text) {
  if (text == "cpu") return {};
  const bool automatic = text == "auto";
  const int ordinal = automatic ? 0 : parse_ordinal(text);
  if (automatic && cuda_count() == 0 && std::getenv(kSlotDevice) == nullptr) {
    return {};
  }
  const std::string problem = cuda_problem();
  if (automatic && !problem.empty()) return {at::kCPU, problem};
  if (!problem.empty()) {
    fail(text, fmt::format("is not there: {} (or use device: cpu)", problem));
  }
  check_ordinal(text, ordinal, cuda_count());
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(ordinal));
  limit_memory(device);
  return {device, ""};
}

at::Device find_device(const std::string& text) {
  const DeviceChoice choice = choose_device(text);
  if (!choice.why_cpu.empty()) {
    static std::once_flag once;
    std::call_once(once, [&] {
      fmt::print(stderr, "trains on the CPU: {}\n", choice.why_cpu);
    });
  }
  return choice.device;
}

}  // namespace dtune
