#include "dtune/data/npz_pixels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "dtune/data/source_error.h"

namespace dtune {
namespace {

constexpr double kMostWidths = 8;
constexpr double kUnitSlack = 1e-6;  // of float rounding

// Of one channel's values.
struct ValueStatistics {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool whole = true;  // all are integers

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
    whole = whole && value == std::floor(value);
  }
};

std::vector<ValueStatistics> scan(const NpzArray& array, size_t channels) {
  std::vector<ValueStatistics> statistics(channels);
  size_t channel = 0;
  for_each_number(array.header, array.bytes, array.where, [&](double value) {
    if (!std::isfinite(value)) {
      fail_data(array.where,
                fmt::format("holds the value {} (replace what is not finite, "
                            "e.g. by numpy.nan_to_num)",
                            value));
    }
    statistics[channel].add(value);
    if (++channel == channels) channel = 0;
  });
  return statistics;
}

// Over all channels: low, high and whole alone.
ValueStatistics overall(const std::vector<ValueStatistics>& channels) {
  ValueStatistics all;
  for (const ValueStatistics& one : channels) {
    all.low = std::min(all.low, one.low);
    all.high = std::max(all.high, one.high);
    all.whole = all.whole && one.whole;
  }
  return all;
}

// Some values of each channel, evenly spread over the images, ascending.
std::vector<std::vector<double>> sample(const NpzArray& array,
                                        size_t channels) {
  constexpr size_t kMost = 1 << 16;
  std::vector<std::vector<double>> samples(channels);
  const size_t stride = std::max<size_t>(
      1, static_cast<size_t>(array.header.items) / channels / kMost);
  size_t next = 0;
  for_each_number(array.header, array.bytes, array.where, [&](double value) {
    if (next / channels % stride == 0) {
      samples[next % channels].push_back(value);
    }
    ++next;
  });
  for (std::vector<double>& one : samples) std::ranges::sort(one);
  return samples;
}

bool is_float(const NpzArray& array) { return array.header.kind == 'f'; }

bool is_uint8(const NpzArray& array) {
  const NpyHeader& header = array.header;
  return (header.kind == 'u' || header.kind == 'b') && header.item_bytes == 1;
}

}  // namespace

PixelMap::PixelMap(const NpzArray& train, int channels)
    : channels_(static_cast<size_t>(channels)) {
  if (!is_float(train) || train.header.items == 0) return;
  const std::vector<ValueStatistics> statistics = scan(train, channels_);
  const ValueStatistics all = overall(statistics);
  const std::string type = fmt::format("float{}", 8 * train.header.item_bytes);
  if (all.low >= -kUnitSlack && all.high <= 1 + kUnitSlack) {
    kind_ = Kind::unit;
    note_ = fmt::format(
        "the images are {} in [0, 1]: they are stored as 0 to 255 (times 255, "
        "rounded)",
        type);
    return;
  }
  if (all.whole && all.low >= 0 && all.high <= 255) return;
  kind_ = Kind::ranges;
  const auto samples = sample(train, channels_);
  for (size_t c = 0; c < channels_; ++c) {
    const std::vector<double>& values = samples[c];
    const size_t thousandth = values.size() / 1000;
    const double low = values[thousandth];
    const double high = values[values.size() - 1 - thousandth];
    const double reach = high > low ? kMostWidths * (high - low)
                                    : std::numeric_limits<double>::infinity();
    ranges_.push_back({.low = std::max(statistics[c].low, low - reach),
                       .high = std::min(statistics[c].high, high + reach)});
  }
  note_ = fmt::format(
      "the images are {} from {:.4g} to {:.4g}: each channel's range is stored "
      "as 0 to 255 (256 levels; what is beyond the training images' range gets "
      "the nearest level)",
      type, all.low, all.high);
}

std::string PixelMap::note() const { return note_; }

uint8_t PixelMap::level_of(double value, size_t channel) const {
  double level = value;
  if (kind_ == Kind::unit) {
    level = value * 255;
  } else if (kind_ == Kind::ranges) {
    const Range& range = ranges_[channel];
    const double width = range.high - range.low;
    level = width > 0 ? (value - range.low) / width * 255 : 0;
  }
  return static_cast<uint8_t>(std::lround(std::clamp(level, 0.0, 255.0)));
}

void PixelMap::fail_scale(const NpzArray& array, double value) const {
  const char* scale = kind_ == Kind::levels ? "are whole numbers from 0 to 255"
                      : kind_ == Kind::unit ? "are in [0, 1]"
                                            : "have another range";
  fail_data(array.where,
            fmt::format("holds the value {}, but the training images {} (scale "
                        "all splits alike)",
                        value, scale));
}

// A split on another scale would be judged on images that the network has
// never seen the like of.
void PixelMap::check_scale(const NpzArray& array) const {
  const std::vector<ValueStatistics> statistics = scan(array, channels_);
  for (size_t c = 0; c < channels_; ++c) {
    const ValueStatistics& one = statistics[c];
    if (kind_ == Kind::unit) {
      if (one.low < -kUnitSlack) fail_scale(array, one.low);
      if (one.high > 1 + kUnitSlack) fail_scale(array, one.high);
    }
  }
  if (kind_ != Kind::ranges) return;
  const auto samples = sample(array, channels_);
  for (size_t c = 0; c < channels_; ++c) {
    const double middle = samples[c][samples[c].size() / 2];
    const double slack = ranges_[c].high - ranges_[c].low;
    const bool near =
        middle >= ranges_[c].low - slack && middle <= ranges_[c].high + slack;
    if (!near) fail_scale(array, middle);
  }
}

std::vector<uint8_t> PixelMap::pixels(NpzArray array) const {
  if (kind_ == Kind::levels) {
    if (is_uint8(array) && !array.header.fortran_order) {
      return std::move(array.bytes);
    }
    if (!is_float(array)) {
      return npy_to_uint8(array.header, array.bytes, array.where);
    }
  }
  if (array.header.items == 0) return {};
  check_scale(array);
  std::vector<uint8_t> levels(array.header.items);
  size_t next = 0;
  for_each_number(array.header, array.bytes, array.where, [&](double value) {
    const size_t channel = next % channels_;
    const bool off = kind_ == Kind::levels &&
                     (value != std::floor(value) || value < 0 || value > 255);
    if (off) fail_scale(array, value);
    levels[next++] = level_of(value, channel);
  });
  return levels;
}

}  // namespace dtune
