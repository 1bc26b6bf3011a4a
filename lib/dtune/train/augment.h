// Augmentation of training images. Every random number depends on the seed, the
// epoch and the sample alone, not on the batch or the rank that has it: a gang
// trains on the images that one process trains on. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/study/data_spec.h"
#include "dtune/study/layers.h"

namespace dtune {

// What decides on the augmentation of a sample.
struct AugmentKey {
  Augmentation augment;
  uint64_t seed = 0;
  int64_t epoch = 0;
};

bool changes_pixels(const Augmentation& augment);
bool mixes(const Augmentation& augment);

// What is done to an image on its own, in this order: mirrored; cropped from a
// mirrored border; shifted over black; its brightness, contrast and saturation
// changed, each by a factor of 1 +- jitter (as torchvision's ColorJitter, in
// this order; contrast around the mean of all channels); a square of `cutout`
// pixels, with its centre anywhere, filled with the mean colour (DeVries and
// Taylor 2017, arXiv 1708.04552).
struct Change {
  bool flip = false;
  // Offsets in pixels; positive: down and right.
  int mirrored_dy = 0;
  int mirrored_dx = 0;
  int dy = 0;
  int dx = 0;
  double brightness = 1;
  double contrast = 1;
  double saturation = 1;  // of three channels
  // The part of the square that is in the image; ends are not in it.
  int top = 0;
  int bottom = 0;
  int left = 0;
  int right = 0;

  bool operator==(const Change&) const = default;
};

Change change_of(uint32_t sample, const Shape& image, const AugmentKey& key);

// What a sample is mixed with.
struct Mix {
  uint32_t other = 0;  // a sample
  float share = 1;     // of the sample's own label; the rest is the other's
  // cutmix: the pixels that are the other's; mixup: none, and each pixel is a
  // mean with the weights of the labels.
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;
};

// Of a sample among `samples`. mixup: Zhang et al. 2017, arXiv 1710.09412;
// cutmix: Yun et al. 2019, arXiv 1905.04899, section 3 (the share is that of
// the pixels that are left). Both draw the other sample from all training
// samples, not from the batch. With both, each has a chance of one half.
// REQUIRES: mixes(key.augment).
Mix mix_of(uint32_t sample, int64_t samples, const Shape& image,
           const AugmentKey& key);

// Images of one shape. Immutable; thread-safe.
class Augmenter {
 public:
  // `mean`: of each channel, of pixels scaled to [0, 1].
  Augmenter(const Shape& image, std::span<const float> mean);

  // image, out: [height, width, channels].
  void apply(const uint8_t* image, const Change& by, uint8_t* out) const;

  // Mixes `other` into `image`; both [height, width, channels].
  void blend(const Mix& mix, const float* other, float* image) const;

  const std::vector<uint8_t>& mean() const { return mean_; }

 private:
  void move(const uint8_t* image, const Change& by, uint8_t* out) const;
  void move_mirrored(const uint8_t* image, const Change& by,
                     uint8_t* out) const;
  void jitter(const Change& by, uint8_t* image) const;
  void saturate(double factor, uint8_t* image) const;
  void cut_out(const Change& by, uint8_t* image) const;

  Shape shape_;
  std::vector<uint8_t> mean_;  // a pixel
};

}  // namespace dtune
