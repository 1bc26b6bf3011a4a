// The GPUs of this machine that a process started here may use, as CUDA itself
// shows them: by the driver's library, so that containers, CUDA_VISIBLE_DEVICES
// and MIG count as they do for LibTorch, which is not needed here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dtune {

struct Gpu {
  // For CUDA_VISIBLE_DEVICES of a process that is to use this one alone: an
  // ordinal, "GPU-<uuid>" or "MIG-<uuid>".
  std::string id;
  std::string name;     // "NVIDIA H100 80GB HBM3"; "": not known
  uint64_t memory = 0;  // bytes; 0: not known
};

struct Gpus {
  std::vector<Gpu> usable;  // as CUDA numbers them
  // Why some or all of what is here cannot be used, with a remedy; "": nothing.
  std::string problem;
  int cuda = 0;  // the driver's newest CUDA, 12040: 12.4; 0: not known
};

struct GpuPlaces {
  std::string driver = "libcuda.so.1";
  std::filesystem::path dev = "/dev";
  std::filesystem::path proc = "/proc";
};

// Asks the driver (up to a second on a machine whose driver sleeps; no memory
// of a GPU is taken). `get`: as std::getenv; the driver reads the process's own
// CUDA_VISIBLE_DEVICES. Where a process can see one MIG instance only, those
// that the variable names (or NVIDIA_VISIBLE_DEVICES in a container) are taken
// from there. Not thread-safe in its first call.
Gpus find_gpus(const std::function<const char*(const char*)>& get,
               const GpuPlaces& places);
// Of this process.
Gpus find_gpus();

// The LibTorch that dtune was built with.
struct TorchBuild {
  bool with_cuda = false;
  int cuda = 0;  // 13000: 13.0; 0: not known
};

// Why trials cannot use the GPUs that are here; "" where they can, or where
// there is none.
std::string why_unused(const Gpus& gpus, const TorchBuild& torch);

// "NVIDIA H100 80GB HBM3 (0), 79.1 GiB".
std::string to_string(const Gpu& gpu);

// GPUs that several processes share take turns, unless CUDA's Multi-Process
// Service runs: the folder of its pipes, or "".
std::string mps_folder(const std::function<const char*(const char*)>& get);

}  // namespace dtune
