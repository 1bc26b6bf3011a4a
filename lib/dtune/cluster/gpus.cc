#include "dtune/cluster/gpus.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "dtune/base/text.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

// What is called of the driver's API (cuda.h of any version since 4).
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*memory)(size_t*, int) = nullptr;
  int (*error)(int, const char**) = nullptr;

  bool complete() const {
    return init != nullptr && version != nullptr && count != nullptr &&
           device != nullptr && name != nullptr && memory != nullptr &&
           error != nullptr;
  }
};

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
}

// Stays loaded: a driver does not bear to be unloaded.
std::optional<Driver> load_driver(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  Driver driver;
  find(library, "cuInit", driver.init);
  find(library, "cuDriverGetVersion", driver.version);
  find(library, "cuDeviceGetCount", driver.count);
  find(library, "cuDeviceGet", driver.device);
  find(library, "cuDeviceGetName", driver.name);
  find(library, "cuDeviceTotalMem_v2", driver.memory);
  find(library, "cuGetErrorString", driver.error);
  if (!driver.complete()) return {};
  return driver;
}

bool has_device_file(const fs::path& dev) {
  constexpr int kMost = 64;
  std::error_code error;
  for (int i = 0; i < kMost; ++i) {
    if (fs::exists(dev / fmt::format("nvidia{}", i), error)) return true;
  }
  return fs::exists(dev / "dxg", error);  // Windows' subsystem for Linux
}

bool names_mig(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with("MIG-");
  });
}

// What the user chose, as ids: CUDA_VISIBLE_DEVICES. A container's own choice
// numbers the GPUs of its host, so only its MIG instances are of use here.
std::vector<std::string> chosen(
    const std::function<const char*(const char*)>& get) {
  if (const char* visible = get("CUDA_VISIBLE_DEVICES")) {
    return split_list(visible);
  }
  const char* visible = get("NVIDIA_VISIBLE_DEVICES");
  if (visible == nullptr) return {};
  std::vector<std::string> words = split_list(visible);
  if (!names_mig(words)) words.clear();
  return words;
}

// Compute instances, by the driver's folder of what they need.
int mig_instances(const fs::path& proc) {
  int count = 0;
  std::error_code error;
  const fs::path all = proc / "driver/nvidia/capabilities";
  for (fs::recursive_directory_iterator at(all, error), end;
       !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    count += at.depth() == 3 && name.starts_with("ci") ? 1 : 0;
  }
  return count;
}

std::string failed(const Driver& driver, int code) {
  const char* text = nullptr;
  if (driver.error(code, &text) != 0 || text == nullptr) text = "unknown error";
  constexpr std::array kTwoVersions = {803, 804};
  const bool versions = std::find(kTwoVersions.begin(), kTwoVersions.end(),
                                  code) != kTwoVersions.end();
  return fmt::format(
      "the driver of the GPU fails: {} (error {}; {})", text, code,
      versions ? "its library and its kernel module are of two versions: start "
                 "the machine, or the container, again"
               : "what does nvidia-smi say?");
}

std::string hidden(const std::function<const char*(const char*)>& get) {
  if (const char* visible = get("CUDA_VISIBLE_DEVICES")) {
    return fmt::format(
        "there is a GPU, but CUDA_VISIBLE_DEVICES='{}' shows none of it (name "
        "it there, or unset the variable)",
        visible);
  }
  return "there is a GPU, but CUDA finds none (what does nvidia-smi say?)";
}

Gpu describe(const Driver& driver, int ordinal) {
  Gpu gpu{.id = std::to_string(ordinal), .name = {}, .memory = 0};
  int device = 0;
  if (driver.device(&device, ordinal) != 0) return gpu;
  std::array<char, 256> name{};
  if (driver.name(name.data(), int{name.size()} - 1, device) == 0) {
    gpu.name = name.data();
  }
  size_t bytes = 0;
  if (driver.memory(&bytes, device) == 0) gpu.memory = bytes;
  return gpu;
}

// A process sees one MIG instance, the first of its list; another process may
// have another.
void take_mig(const std::vector<std::string>& words, Gpus& gpus) {
  const Gpu first = gpus.usable.front();
  gpus.usable.clear();
  for (const std::string& word : words) {
    if (!word.starts_with("MIG-")) continue;
    gpus.usable.push_back({word, first.name, 0});
  }
}

void name_by_choice(const std::vector<std::string>& words, Gpus& gpus) {
  for (size_t i = 0; i < std::min(words.size(), gpus.usable.size()); ++i) {
    gpus.usable[i].id = words[i];
  }
}

Gpus ask(const Driver& driver, const GpuPlaces& places,
         const std::function<const char*(const char*)>& get) {
  Gpus gpus;
  driver.version(&gpus.cuda);
  int count = 0;
  int code = driver.init(0);
  if (code == 0) code = driver.count(&count);
  if (code != 0 && code != kNoDevice) {
    gpus.problem = failed(driver, code);
    return gpus;
  }
  if (count == 0) {
    if (has_device_file(places.dev)) gpus.problem = hidden(get);
    return gpus;
  }
  for (int i = 0; i < count; ++i) gpus.usable.push_back(describe(driver, i));
  const std::vector<std::string> words = chosen(get);
  if (names_mig(words)) {
    take_mig(words, gpus);
    return gpus;
  }
  name_by_choice(words, gpus);
  const int instances = mig_instances(places.proc);
  if (words.empty() && instances > count) {
    gpus.problem = fmt::format(
        "{} MIG instances are here, of which CUDA shows {} (name them in "
        "CUDA_VISIBLE_DEVICES: nvidia-smi -L lists them as MIG-...)",
        instances, count);
  }
  return gpus;
}

std::string version_text(int cuda) {
  return fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

}  // namespace

Gpus find_gpus(const std::function<const char*(const char*)>& get,
               const GpuPlaces& places) {
  if (const auto driver = load_driver(places.driver)) {
    return ask(*driver, places, get);
  }
  Gpus gpus;
  if (has_device_file(places.dev)) {
    gpus.problem = fmt::format(
        "there is a GPU, but not its driver's library {} (install the driver; "
        "a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
        places.driver);
  }
  return gpus;
}

Gpus find_gpus() {
  return find_gpus([](const char* name) { return std::getenv(name); }, {});
}

std::string why_unused(const Gpus& gpus, const TorchBuild& torch) {
  if (gpus.usable.empty()) return gpus.problem;
  if (!torch.with_cuda) {
    return "there is a GPU, but this LibTorch is for the CPU (build with a "
           "CUDA LibTorch: sh third_party/bootstrap.sh --torch python build)";
  }
  // Within a major version of CUDA an older driver will do.
  if (gpus.cuda / 1000 < torch.cuda / 1000) {
    return fmt::format(
        "the GPU's driver is for CUDA {}, too old for this LibTorch with CUDA "
        "{} (install a newer driver)",
        version_text(gpus.cuda), version_text(torch.cuda));
  }
  return "";
}

std::string to_string(const Gpu& gpu) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  std::string text =
      gpu.name.empty() ? gpu.id : fmt::format("{} ({})", gpu.name, gpu.id);
  if (gpu.memory > 0) {
    text += fmt::format(", {:.1f} GiB", static_cast<double>(gpu.memory) / kGiB);
  }
  return text;
}

std::string mps_folder(const std::function<const char*(const char*)>& get) {
  const char* set = get("CUDA_MPS_PIPE_DIRECTORY");
  const fs::path folder = set != nullptr ? set : "/tmp/nvidia-mps";
  std::error_code error;
  return fs::exists(folder / "control", error) ? folder.string() : "";
}

}  // namespace dtune
