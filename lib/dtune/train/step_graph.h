// The steps of a training on a GPU, recorded once as a CUDA graph and then
// repeated: the CPU gives one command instead of hundreds. What differs from
// step to step is in inputs, which are copied to where the recorded work reads
// them. Without CUDA a twin repeats the work by calling it again, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>

namespace dtune {

// What a batch of one or several trainings brings to its step. run() takes
// numbers on the CPU and gives them on the device.
struct StepInputs {
  at::Tensor images;   // on the device
  at::Tensor judging;  // judging_numbers, device_loss.h
  at::Tensor masks;    // batch_mask_keys, nn/mask.h
  at::Tensor update;   // update_numbers, fused_update.h
};

// What a pass takes as its mask keys. layers: as batch_mask_keys got them.
std::map<std::string, at::Tensor> masks_by_layer(
    const StepInputs& inputs, const std::vector<std::string>& layers);

// Device work that is recorded and repeated. Not thread-safe.
class Recording {
 public:
  virtual ~Recording() = default;
  // Keeps what `work` gives to the device, without its effects. Throws what it
  // throws, or what the device has against it.
  virtual void record(const std::function<at::Tensor()>& work) = 0;
  // Does the work. What it came to is in the same tensor each time.
  virtual at::Tensor repeat() = 0;
};
// Null where DTUNE_CUDA_GRAPHS is "off": for drivers that have trouble with them.
std::unique_ptr<Recording> make_recording(const at::Device& device);

// Not thread-safe; each call may come from another thread.
class StepGraph {
 public:
  // Steps of so many samples are recorded; others, as an epoch's last batch,
  // are done as they come. recording: null for none.
  StepGraph(const at::Device& device, int64_t samples,
            std::unique_ptr<Recording> recording);

  // Everything that it reads and that differs between steps is in the inputs;
  // it waits for nothing and sends nothing to the device. Returns what the
  // batch came to.
  using Work = std::function<at::Tensor(const StepInputs& inputs)>;

  // Does the step: by `work`, or as a repetition of an earlier `work`, which
  // must be the same. Does not wait for the device. The result is the caller's.
  // Where recording fails, stderr says so, and it is not tried again.
  at::Tensor run(const StepInputs& inputs, const Work& work);

  int64_t repeated() const { return repeated_; }  // steps

  // Steps before the one that is recorded. A recording takes as long as some
  // twenty steps, and trials come and go; on the CPU it takes nothing.
  static constexpr int kFirst = 24;
  static constexpr int kFirstOnCpu = 3;
  // The last of them are of the thread that records: kernels are chosen then,
  // and what is made once is there.
  static constexpr int kFirstOfThread = 3;

 private:
  bool is_due(const StepInputs& inputs);
  void record(const StepInputs& inputs, const Work& work);

  at::Device device_;
  int64_t samples_;
  std::unique_ptr<Recording> recording_;
  std::optional<StepInputs> inputs_;  // that the recorded work reads
  int done_ = 0;                      // steps of that size
  int by_thread_ = 0;                 // of these, the last ones of one thread
  std::thread::id by_;
  int64_t repeated_ = 0;
};

}  // namespace dtune
