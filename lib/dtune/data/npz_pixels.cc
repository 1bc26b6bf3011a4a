#include "dtune/data/npz_pixels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "dtune/base/error.h"
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

std::vector<ValueStatistics> scan(const NpzNumbers& numbers, size_t channels) {
  std::vector<ValueStatistics> statistics(channels);
  size_t channel = 0;
  numbers.for_each([&](double value) {
    if (!std::isfinite(value)) {
      fail_data(numbers.where,
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

// Some values of each channel, evenly spread over the images, ascending: of
// each `stride` neighbours one, at another place each time, since a stride that
// is a multiple of the images' width would meet the same columns alone.
std::vector<std::vector<double>> sample(const NpzNumbers& numbers,
                                        size_t channels) {
  constexpr size_t kMost = 1 << 16;
  constexpr size_t kPrime = 7919;
  std::vector<std::vector<double>> samples(channels);
  const size_t stride = std::max<size_t>(
      1, static_cast<size_t>(numbers.header.items) / channels / kMost);
  size_t next = 0;
  numbers.for_each([&](double value) {
    const size_t pixel = next / channels;
    if (pixel % stride == pixel / stride * kPrime % stride) {
      samples[next % channels].push_back(value);
    }
    ++next;
  });
  for (std::vector<double>& one : samples) std::ranges::sort(one);
  return samples;
}

bool is_float(const NpyHeader& header) { return header.kind == 'f'; }

bool is_uint8(const NpyHeader& header) {
  return (header.kind == 'u' || header.kind == 'b') && header.item_bytes == 1;
}

}  // namespace

NpzNumbers numbers_of(const NpzArray& array) {
  return {.header = array.header,
          .where = array.where,
          .for_each = [&array](const std::function<void(double)>& visit) {
            for_each_number(array.header, array.bytes, array.where, visit);
          }};
}

NpzNumbers numbers_of(NpzStream& stream) {
  return {.header = stream.header(),
          .where = stream.where(),
          .for_each = [&stream](const std::function<void(double)>& visit) {
            stream.for_each(visit);
          }};
}

PixelMap::PixelMap(const NpzNumbers& train, int channels)
    : channels_(static_cast<size_t>(channels)) {
  if (!is_float(train.header) || train.header.items == 0) return;
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

void PixelMap::fail_scale(const std::filesystem::path& where,
                          double value) const {
  const char* scale = kind_ == Kind::levels ? "are whole numbers from 0 to 255"
                      : kind_ == Kind::unit ? "are in [0, 1]"
                                            : "have another range";
  fail_data(where,
            fmt::format("holds the value {}, but the training images {} (scale "
                        "all splits alike)",
                        value, scale));
}

void PixelMap::check(const NpzNumbers& numbers) const {
  const bool as_they_are = kind_ == Kind::levels && !is_float(numbers.header);
  if (as_they_are || numbers.header.items == 0) return;
  const std::vector<ValueStatistics> statistics = scan(numbers, channels_);
  for (const ValueStatistics& one : statistics) {
    if (kind_ != Kind::unit) continue;
    if (one.low < -kUnitSlack) fail_scale(numbers.where, one.low);
    if (one.high > 1 + kUnitSlack) fail_scale(numbers.where, one.high);
  }
  if (kind_ != Kind::ranges) return;
  const auto samples = sample(numbers, channels_);
  for (size_t c = 0; c < channels_; ++c) {
    const double middle = samples[c][samples[c].size() / 2];
    const double slack = ranges_[c].high - ranges_[c].low;
    const bool near =
        middle >= ranges_[c].low - slack && middle <= ranges_[c].high + slack;
    if (!near) fail_scale(numbers.where, middle);
  }
}

void PixelMap::convert(const NpyHeader& header, std::span<const uint8_t> raw,
                       const std::filesystem::path& where,
                       std::span<uint8_t> pixels) const {
  DTUNE_CHECK(pixels.size() == header.items);
  if (kind_ == Kind::levels && !is_float(header)) {
    if (is_uint8(header) && !header.fortran_order) {
      std::ranges::copy(raw, pixels.begin());
    } else {
      std::ranges::copy(npy_to_uint8(header, raw, where), pixels.begin());
    }
    return;
  }
  size_t next = 0;
  for_each_number(header, raw, where, [&](double value) {
    const bool off = kind_ == Kind::levels &&
                     (value != std::floor(value) || value < 0 || value > 255);
    if (off) fail_scale(where, value);
    pixels[next] = level_of(value, next % channels_);
    ++next;
  });
}

std::vector<uint8_t> PixelMap::pixels(const NpzArray& array) const {
  check(numbers_of(array));
  std::vector<uint8_t> levels(array.header.items);
  convert(array.header, array.bytes, array.where, levels);
  return levels;
}

}  // namespace dtune
