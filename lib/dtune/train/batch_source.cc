#include "dtune/train/batch_source.h"

#include <algorithm>
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
      splits_(splits),
      normalization_(normalization),
      shape_(data_->image_shape()),
      scale_(shape_, normalization),
      augmenter_(shape_, data_->mean()) {
  for (const Split split : splits) {
    check_labels(*data_, split);
    parts_.push_back({count_, data_->images(split), data_->labels(split)});
    count_ += data_->count(split);
  }
}

void BatchSource::keep(std::vector<uint32_t> samples) {
  for (uint32_t& sample : samples) {
    sample = static_cast<uint32_t>(place_of(sample));
  }
  kept_ = std::move(samples);
  count_ = static_cast<int64_t>(kept_.size());
}

int64_t BatchSource::places() const {
  return parts_.back().begin +
         static_cast<int64_t>(parts_.back().labels.size());
}

std::vector<int64_t> BatchSource::class_counts() const {
  std::vector<int64_t> counts(static_cast<size_t>(data_->classes()));
  for (const int32_t label : labels()) ++counts[label];
  return counts;
}

std::vector<int32_t> BatchSource::labels() const {
  std::vector<int32_t> all(static_cast<size_t>(count_));
  for (int64_t sample = 0; sample < count_; ++sample) {
    all[static_cast<size_t>(sample)] = label_of(sample);
  }
  return all;
}

const BatchSource::Part& BatchSource::part_at(int64_t place) const {
  size_t i = parts_.size() - 1;
  while (parts_[i].begin > place) --i;
  return parts_[i];
}

std::span<const uint8_t> BatchSource::pixels(int64_t sample) const {
  const int64_t place = place_of(sample);
  const Part& part = part_at(place);
  const int64_t elements = shape_.elements();
  return part.images.subspan(
      static_cast<size_t>((place - part.begin) * elements),
      static_cast<size_t>(elements));
}

int32_t BatchSource::label_of(int64_t sample) const {
  const int64_t place = place_of(sample);
  const Part& part = part_at(place);
  return part.labels[place - part.begin];
}

// `augment` null: as it is.
void BatchSource::scaled_into(uint32_t sample, const AugmentKey* augment,
                              std::span<uint8_t> scratch, float* out) const {
  const uint8_t* image = pixels(sample).data();
  if (augment != nullptr) {
    augmenter_.apply(image, change_of(sample, shape_, *augment),
                     scratch.data());
    image = scratch.data();
  }
  scale_.apply(image, shape_.height, out);
}

void BatchSource::gather(std::span<const uint32_t> samples,
                         const std::optional<AugmentKey>& augment,
                         std::span<float> images,
                         std::span<int32_t> labels) const {
  const int64_t elements = shape_.elements();
  DTUNE_CHECK(static_cast<int64_t>(images.size()) ==
              elements * static_cast<int64_t>(samples.size()));
  this->labels(samples, labels);
  const bool changes = augment && changes_pixels(augment->augment);
  const bool mixed = augment && mixes(augment->augment);
  const AugmentKey* key = changes ? &*augment : nullptr;
  const auto size = static_cast<size_t>(elements);
  std::vector<uint8_t> scratch(changes ? size : 0);
  std::vector<float> other(mixed ? size : 0);
  float* out = images.data();
  for (const uint32_t sample : samples) {
    scaled_into(sample, key, scratch, out);
    if (mixed) {
      const Mix mix = mix_of(sample, count_, shape_, *augment);
      scaled_into(mix.other, key, scratch, other.data());
      augmenter_.blend(mix, other.data(), out);
    }
    out += elements;
  }
}

void BatchSource::append_plan(std::span<const uint32_t> samples,
                              const std::optional<AugmentKey>& augment,
                              std::vector<PlannedImage>& plan) const {
  const bool changes = augment && changes_pixels(augment->augment);
  const bool mixed = augment && mixes(augment->augment);
  for (const uint32_t sample : samples) {
    PlannedImage& image = plan.emplace_back(PlannedImage{.sample = sample});
    if (changes) image.change = change_of(sample, shape_, *augment);
    if (!mixed) continue;
    image.mix = mix_of(sample, count_, shape_, *augment);
    if (changes) image.other = change_of(image.mix->other, shape_, *augment);
  }
}

void BatchSource::append_mix(std::span<const uint32_t> samples,
                             const AugmentKey& augment, LabelMix& mix) const {
  if (!mixes(augment.augment)) return;
  for (const uint32_t sample : samples) {
    const Mix one = mix_of(sample, count_, shape_, augment);
    mix.others.push_back(label_of(one.other));
    mix.shares.push_back(one.share);
  }
}

void BatchSource::labels(std::span<const uint32_t> samples,
                         std::span<int32_t> labels) const {
  DTUNE_CHECK(labels.size() == samples.size());
  for (size_t i = 0; i < samples.size(); ++i) labels[i] = label_of(samples[i]);
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
