// Judges a network on a split.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/nn/network.h"
#include "dtune/study/metrics.h"
#include "dtune/train/batch_source.h"
#include "dtune/train/device_images.h"
#include "dtune/train/plugin.h"

namespace dtune {

// Samples of a batch that is judged: about a million pixel values, 16 to 256
// samples.
int64_t evaluation_batch_size(const Shape& image);

// A split cut into the batches by which networks are judged. Their size depends
// on the images' size alone: with one thread, equal weights give equal answers
// to the last bit, whatever the training used and whichever member predicts a
// batch. Not thread-safe.
class EvaluationBatches {
 public:
  EvaluationBatches(BatchSource source, int classes, at::Device device);

  int64_t count() const;  // of batches
  int classes() const { return classes_; }
  int64_t samples() const { return source_.count(); }
  std::vector<int32_t> labels() const { return source_.labels(); }
  // Number of the batch's first sample; samples() past the last batch.
  int64_t first(int64_t batch) const;
  int64_t size(int64_t batch) const { return first(batch + 1) - first(batch); }

  // A batch's input, [size, C, H, W] on the device; valid until the next call.
  // REQUIRES: 0 <= batch < count().
  at::Tensor images(int64_t batch);
  // The network's logits for it, [size, classes] on the CPU.
  at::Tensor answer(Network& network, int64_t batch);

 private:
  std::vector<uint32_t> numbers(int64_t batch) const;  // of its samples
  std::vector<PlannedImage> plan(int64_t batch) const;
  at::Tensor device_images(int64_t batch);

  BatchSource source_;
  int classes_;
  at::Device device_;
  int64_t most_;       // samples of a batch
  at::Tensor images_;  // [most_, C, H, W], channels-last, on the CPU
  std::optional<DeviceImages> device_images_;  // on other devices
};

// The network's predictions of all samples of the source, in their order.
// Throws StepStopped when `stop` is set, which is looked at before each batch.
Predictions predict_all(Network& network, const BatchSource& source,
                        int classes, at::Device device,
                        const std::atomic<bool>& stop);

// See Engine::evaluate. Computes with one thread on the CPU, as the training's
// own last look at the test split does.
std::map<std::string, double> evaluate_model(const EvalRequest& request);

}  // namespace dtune
