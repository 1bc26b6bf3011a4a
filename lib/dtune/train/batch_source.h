// From mapped bytes to batches: gathers samples, augments and normalises them
// in one pass; and says which samples the batch at a position of the training
// holds. No LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dtune/data/batches.h"
#include "dtune/data/prepared.h"
#include "dtune/train/augment.h"

namespace dtune {

// Per channel, of pixels scaled to [0, 1]: x = (pixel / 255 - mean) /
// deviation.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

// That of the data's training split, or mean 0 and deviation 1.
Normalization normalization_of(const PreparedData& data, bool normalize);

// Pixels to what a network reads, as above. Immutable; thread-safe.
class PixelScale {
 public:
  // REQUIRES: numbers of image.channels channels.
  PixelScale(const Shape& image, const Normalization& normalization);

  // `rows` rows of pixels, of one image or of several.
  void apply(const uint8_t* pixels, int64_t rows, float* out) const;

 private:
  std::vector<float> scale_;   // of one row of pixels: [width * channels]
  std::vector<float> offset_;  // x = pixel * scale + offset
};

// What mixed samples have of other labels: samples that follow each other;
// empty where nothing is mixed.
struct LabelMix {
  std::vector<int32_t> others;
  std::vector<float> shares;  // of the own labels
};

// What an image of a batch is made of, for those that make it themselves
// (device_images.h).
struct PlannedImage {
  uint32_t sample = 0;
  Change change = {};
  std::optional<Mix> mix = {};
  Change other = {};  // of the sample that it is mixed with
};

// The samples of one or more splits, one after the other. Thread-safe; keeps
// the data mapped.
class BatchSource {
 public:
  // Throws Error(data) where a label is not one of the data's classes.
  BatchSource(std::shared_ptr<const PreparedData> data,
              const std::vector<Split>& splits,
              const Normalization& normalization);

  // From here on these samples are all that there are, numbered anew.
  // REQUIRES: numbers of samples that it has.
  void keep(std::vector<uint32_t> samples);

  int64_t count() const { return count_; }
  const Shape& image_shape() const { return shape_; }
  // Samples of the splits, whether kept or not.
  int64_t places() const;
  // The place of a sample in the splits, one after the other.
  int64_t place_of(int64_t sample) const {
    return kept_.empty() ? sample : kept_[static_cast<size_t>(sample)];
  }
  std::vector<int64_t> class_counts() const;
  std::vector<int32_t> labels() const;  // of all samples, in order

  // The samples' labels alone: [samples.size()].
  void labels(std::span<const uint32_t> samples,
              std::span<int32_t> labels) const;

  // images: [samples.size(), height, width, channels] (NHWC, what [N, C, H, W]
  // in channels-last is in memory); labels: [samples.size()].
  void gather(std::span<const uint32_t> samples,
              const std::optional<AugmentKey>& augment, std::span<float> images,
              std::span<int32_t> labels) const;

  // Appends what gather makes these samples' images of.
  void append_plan(std::span<const uint32_t> samples,
                   const std::optional<AugmentKey>& augment,
                   std::vector<PlannedImage>& plan) const;

  // Appends what gather with this augmentation mixes the samples with.
  void append_mix(std::span<const uint32_t> samples, const AugmentKey& augment,
                  LabelMix& mix) const;

  const PreparedData& data() const { return *data_; }
  const std::vector<Split>& splits() const { return splits_; }
  const Normalization& normalization() const { return normalization_; }
  // What cutout fills a pixel with.
  const std::vector<uint8_t>& mean_pixel() const { return augmenter_.mean(); }
  // [height, width, channels].
  std::span<const uint8_t> pixels(int64_t sample) const;

 private:
  struct Part {
    int64_t begin;  // number of its first sample
    std::span<const uint8_t> images;
    std::span<const int32_t> labels;
  };
  const Part& part_at(int64_t place) const;
  int32_t label_of(int64_t sample) const;
  void scaled_into(uint32_t sample, const AugmentKey* augment,
                   std::span<uint8_t> scratch, float* out) const;

  std::shared_ptr<const PreparedData> data_;
  std::vector<Split> splits_;
  Normalization normalization_;
  Shape shape_;
  std::vector<Part> parts_;
  int64_t count_ = 0;
  std::vector<uint32_t> kept_;  // places of the samples; empty: all
  PixelScale scale_;
  Augmenter augmenter_;
};

// Which samples come when. An epoch is a permutation of all samples, seeded by
// the trial's seed and the epoch, and cut into batches (data/batches.h), which
// never depend on where steps end.
// Not thread-safe.
class BatchOrder {
 public:
  // REQUIRES: samples >= 1, batch_size >= 1.
  BatchOrder(int64_t samples, int batch_size, uint64_t seed);

  BatchRange at(int64_t position) const { return cutter_.at(position); }

  // The batch's samples; valid until the next call.
  std::span<const uint32_t> samples(const BatchRange& batch);

  int64_t largest_batch() const { return cutter_.largest_batch(); }

 private:
  BatchCutter cutter_;
  uint64_t seed_;
  int64_t epoch_ = -1;  // of order_
  std::vector<uint32_t> order_;
};

}  // namespace dtune
