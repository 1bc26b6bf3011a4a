#include "dtune/train/device.h"

#include <array>
#include <charconv>
#include <string_view>

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr std::string_view kCuda = "cuda";

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
    const std::string_view digits = view.substr(kCuda.size() + 1);
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, ordinal);
    if (stop != end || error != std::errc()) ordinal = -1;
  }
  if (ordinal < 0) {
    fail(text, "is not a device (use auto, cpu, cuda or cuda:<number>)");
  }
  return ordinal;
}

}  // namespace

at::Device find_device(const std::string& text) {
  if (text == "cpu") return at::kCPU;
  const int count = cuda_count();
  if (text == "auto") {
    return count > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  }
  const int ordinal = parse_ordinal(text);
  if (count == 0) {
    fail(text, at::hasCUDA()
                   ? "is not there: LibTorch finds no CUDA device (check the "
                     "driver with nvidia-smi, or use device: cpu)"
                   : "is not there: this LibTorch is built without CUDA (use "
                     "device: cpu, or build dtune with a CUDA LibTorch)");
  }
  if (ordinal >= count) {
    fail(text,
         fmt::format("is not there: this machine has {} CUDA device{} "
                     "(use cuda:0{})",
                     count, count > 1 ? "s" : "",
                     count > 1 ? fmt::format(" to cuda:{}", count - 1) : ""));
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(ordinal)};
}

std::vector<std::string> cuda_device_names() {
  std::vector<std::string> names;
  // The driver's own call: CUDA's headers are not needed to build this.
  using GetName = int(char*, int, int);
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  auto* get_name =
      driver == nullptr
          ? nullptr
          : reinterpret_cast<GetName*>(::dlsym(driver, "cuDeviceGetName"));
  for (int i = 0; i < cuda_count(); ++i) {
    std::array<char, 256> name{};
    const bool known =
        get_name != nullptr &&
        get_name(name.data(), static_cast<int>(name.size()) - 1, i) == 0;
    names.push_back(known ? std::string(name.data())
                          : fmt::format("CUDA device {}", i));
  }
  return names;
}

}  // namespace dtune
