// Which device a trial is trained on.
//
// An agent gives a worker one GPU, by CUDA_VISIBLE_DEVICES, and says so:
//   DTUNE_SLOT_DEVICE   the GPU, as the agent names it: every "cuda:<n>" is this
//   DTUNE_DEVICE_SHARE  which part of its memory the slot may take, (0, 1]
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

namespace dtune {

struct DeviceChoice {
  at::Device device = at::kCPU;
  // Why "auto" is the CPU although the agent gave this worker a GPU; "":
  // nothing to say.
  std::string why_cpu;
};

// train.device: "auto" (a GPU that works, else the CPU), "cpu", "cuda",
// "cuda:<n>". The part of a GPU's memory is set. Throws Error(config), with the
// reason, for a GPU that is not there or that LibTorch cannot use.
DeviceChoice choose_device(const std::string& text);

// The same; says on stderr, once, why it is the CPU.
at::Device find_device(const std::string& text);

// Why LibTorch cannot compute on the first GPU; "" where it can.
std::string cuda_problem();

// DTUNE_DEVICE_SHARE's value; 1 where it cannot be read. REQUIRES: text may be
// null.
double device_share(const char* text);

// A stream of a GPU for work that others need not wait for; the CPU has none.
std::optional<c10::Stream> own_stream(const at::Device& device);

// Bytes of a GPU's memory that this process may take; of other devices: all
// there are.
uint64_t memory_limit(const at::Device& device);

}  // namespace dtune
