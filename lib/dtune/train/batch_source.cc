#include "dtune/train/batch_source.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

void check_labels(const PreparedData& data, Split split) {
  const std::span<const int32_t> labels = data.labels(split);
  const int32_t classes = data.classes();
  const bool valid = std::all_of(labels.begin(), labels.end(), [=](int32_t y) {
    return 0 <= y && y < classes;
  });
  if (!valid) {
    throw Error(ErrorKind::data,
                "prepared data: a label is not one of the classes (the file is "
                "damaged: delete it, it is made again)");
  }
}

// Pixels in the opposite order; the channels of each stay as they are.
void mirror(const uint8_t* row, size_t bytes, size_t pixel, uint8_t* out) {
  if (pixel == 1) {
    std::reverse_copy(row, row + bytes, out);
    return;
  }
  for (size_t at = 0; at < bytes; at += pixel) {
    std::memcpy(out + at, row + bytes - pixel - at, pixel);
  }
}

}  // namespace

Normalization normalization_of(const PreparedData& data, bool normalize) {
  const auto channels = static_cast<size_t>(data.image_shape().channels);
  if (!normalize) {
    return {std::vector<float>(channels, 0), std::vector<float>(channels, 1)};
  }
  return {{data.mean().begin(), data.mean().end()},
          {data.deviation().begin(), data.deviation().end()}};
}

PixelScale::PixelScale(const Shape& image, const Normalization& normalization) {
  DTUNE_CHECK(normalization.mean.size() == static_cast<size_t>(image.channels));
  for (int x = 0; x < image.width; ++x) {
    for (int c = 0; c < image.channels; ++c) {
      const float deviation = normalization.deviation[c];
      scale_.push_back(1 / (255 * deviation));
      offset_.push_back(-normalization.mean[c] / deviation);
    }
  }
}

// Rows are whole, so that the inner loop has no division and vectorises.
void PixelScale::apply(const uint8_t* pixels, int64_t rows, float* out) const {
  const size_t width = scale_.size();
  const float* scale = scale_.data();
  const float* offset = offset_.data();
  for (int64_t y = 0; y < rows; ++y) {
    for (size_t j = 0; j < width; ++j) {
      out[j] = static_cast<float>(pixels[j]) * scale[j] + offset[j];
    }
    pixels += width;
    out += width;
  }
}

BatchSource::BatchSource(std::shared_ptr<const PreparedData> data,
                         const std::vector<Split>& splits,
                         const Normalization& normalization)
    : data_(std::move(data)),
      shape_(data_->image_shape()),
      scale_(shape_, normalization) {
  for (const Split split : splits) {
    check_labels(*data_, split);
    parts_.push_back({count_, data_->images(split), data_->labels(split)});
    count_ += data_->count(split);
  }
}

std::vector<int64_t> BatchSource::class_counts() const {
  std::vector<int64_t> counts(static_cast<size_t>(data_->classes()));
  for (const Part& part : parts_) {
    for (const int32_t label : part.labels) ++counts[label];
  }
  return counts;
}

std::vector<int32_t> BatchSource::labels() const {
  std::vector<int32_t> all;
  all.reserve(static_cast<size_t>(count_));
  for (const Part& part : parts_) {
    all.insert(all.end(), part.labels.begin(), part.labels.end());
  }
  return all;
}

const BatchSource::Part& BatchSource::part_of(int64_t sample) const {
  size_t i = parts_.size() - 1;
  while (parts_[i].begin > sample) --i;
  return parts_[i];
}

// Mirrors, then shifts; what comes in from outside is black.
void BatchSource::augment_into(const uint8_t* image, uint32_t sample,
                               const AugmentKey& key, uint8_t* out) const {
  Rng rng(mix_seed({key.seed, static_cast<uint64_t>(key.epoch), sample}));
  const bool flip = key.augment.flip && rng.uniform() < 0.5;
  const auto reach = static_cast<uint64_t>(key.augment.shift);
  const int dy =
      static_cast<int>(rng.below(2 * reach + 1)) - static_cast<int>(reach);
  const int dx =
      static_cast<int>(rng.below(2 * reach + 1)) - static_cast<int>(reach);
  const int pixel = shape_.channels;
  const auto row_bytes = static_cast<size_t>(shape_.width) * pixel;
  for (int y = 0; y < shape_.height; ++y, out += row_bytes) {
    std::memset(out, 0, row_bytes);
    if (y - dy < 0 || y - dy >= shape_.height) continue;
    const uint8_t* row = image + static_cast<size_t>(y - dy) * row_bytes;
    const int first = std::clamp(dx, 0, shape_.width);
    const int last = std::clamp(shape_.width + dx, 0, shape_.width);
    const auto at = static_cast<size_t>(first) * pixel;
    const auto length = static_cast<size_t>(last - first) * pixel;
    if (length == 0) continue;
    if (flip) {
      const int from = shape_.width - last + dx;
      mirror(row + static_cast<size_t>(from) * pixel, length, pixel, out + at);
    } else {
      std::memcpy(out + at, row + static_cast<size_t>(first - dx) * pixel,
                  length);
    }
  }
}

void BatchSource::gather(std::span<const uint32_t> samples,
                         const std::optional<AugmentKey>& augment,
                         std::span<float> images,
                         std::span<int32_t> labels) const {
  const int64_t elements = shape_.elements();
  DTUNE_CHECK(static_cast<int64_t>(images.size()) ==
              elements * static_cast<int64_t>(samples.size()));
  DTUNE_CHECK(labels.size() == samples.size());
  const bool changes =
      augment && (augment->augment.flip || augment->augment.shift > 0);
  std::vector<uint8_t> changed(changes ? static_cast<size_t>(elements) : 0);
  float* out = images.data();
  for (size_t i = 0; i < samples.size(); ++i, out += elements) {
    const Part& part = part_of(samples[i]);
    const int64_t at = samples[i] - part.begin;
    const uint8_t* pixels = part.images.data() + at * elements;
    if (changes) {
      augment_into(pixels, samples[i], *augment, changed.data());
      pixels = changed.data();
    }
    scale_.apply(pixels, shape_.height, out);
    labels[i] = part.labels[at];
  }
}

void BatchSource::labels(std::span<const uint32_t> samples,
                         std::span<int32_t> labels) const {
  DTUNE_CHECK(labels.size() == samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const Part& part = part_of(samples[i]);
    labels[i] = part.labels[samples[i] - part.begin];
  }
}

BatchOrder::BatchOrder(int64_t samples, int batch_size, uint64_t seed)
    : cutter_(samples, batch_size), seed_(seed) {}

std::span<const uint32_t> BatchOrder::samples(const BatchRange& batch) {
  if (batch.epoch != epoch_) {
    order_.resize(static_cast<size_t>(cutter_.samples()));
    std::iota(order_.begin(), order_.end(), 0U);
    Rng rng(mix_seed({seed_, static_cast<uint64_t>(batch.epoch)}));
    rng.shuffle(std::span<uint32_t>(order_));
    epoch_ = batch.epoch;
  }
  return std::span<const uint32_t>(order_).subspan(
      static_cast<size_t>(batch.first), static_cast<size_t>(batch.size));
}

}  // namespace dtune
