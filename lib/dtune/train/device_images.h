// Makes the images of batches on a device from 8-bit pixels: gathers, augments,
// normalises and mixes them by tensor operations as BatchSource::gather does on
// the CPU (up to rounding), by the random numbers that the CPU draws.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "dtune/train/batch_source.h"

namespace dtune {

// Not thread-safe; several may use one source's data.
class DeviceImages {
 public:
  // Where the pixels are.
  enum class Pixels {
    by_size,   // resident if they are at most a quarter of the memory that the
               // slot may take and of one of the splits train and validation
    resident,  // on the device: one copy for all trials of the process
    streamed   // on the CPU: the batch's own are copied from pinned memory
  };
  DeviceImages(BatchSource source, const at::Device& device,
               Pixels pixels = Pixels::by_size);

  // [plan.size(), C, H, W] float32, channels-last, on the device. Does not wait
  // for it.
  at::Tensor make(std::span<const PlannedImage> plan);

  // Begins to copy the pixels of the plan that make() gets next, beside what
  // the device computes. Nothing where they are resident.
  void prefetch(std::span<const PlannedImage> plan);

  // Whether both have one copy of the pixels.
  bool shares_pixels(const DeviceImages& other) const;
  bool resident() const { return resident_ != nullptr; }

 private:
  struct Row;  // an image before it is mixed
  struct Staged {
    std::vector<uint32_t> samples;
    at::Tensor pixels = {};  // [samples, H, W, C]
    // On a stream of its own.
    std::optional<c10::Event> copied = {};
  };

  std::vector<Row> rows_of(std::span<const PlannedImage> plan) const;
  static std::vector<uint32_t> samples_of(const std::vector<Row>& rows);
  at::Tensor numbers_of(const std::vector<Row>& rows) const;
  at::Tensor stage(const std::vector<uint32_t>& samples) const;
  at::Tensor take_staged(const std::vector<Row>& rows);
  at::Tensor changed(const std::vector<Row>& rows);
  at::Tensor mixed(std::span<const PlannedImage> plan,
                   const at::Tensor& images) const;
  at::Tensor per_channel(const std::vector<float>& values) const;

  BatchSource source_;
  at::Device device_;
  std::shared_ptr<const at::Tensor> resident_;  // [samples, H, W, C]
  int64_t first_ = 0;                  // in resident_, of the source's samples
  std::optional<c10::Stream> beside_;  // copies while the device computes
  std::optional<Staged> staged_;
  at::Tensor scale_;   // [C]
  at::Tensor offset_;  // [C]
  at::Tensor mean_;    // [C], pixels
};

}  // namespace dtune
