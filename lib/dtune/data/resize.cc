#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/data/image.h"

namespace dtune {
namespace {

constexpr int kWeightBits = 14;

// Which source positions make one target position, and how much of each; the
// weights add up to 1 << kWeightBits.
struct Taps {
  int first = 0;
  std::vector<int> weights;
};

void normalize(std::vector<double>& raw, std::vector<int>& weights) {
  double sum = 0;
  for (const double w : raw) sum += w;
  int left = 1 << kWeightBits;
  for (const double w : raw) {
    weights.push_back(
        static_cast<int>(std::lround(w / sum * (1 << kWeightBits))));
    left -= weights.back();
  }
  *std::max_element(weights.begin(), weights.end()) += left;
}

std::vector<Taps> make_taps(int from, int to) {
  const double scale = double(from) / to;
  const double reach = std::max(scale, 1.0);  // of the triangle, each way
  std::vector<Taps> all(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale - 0.5;
    const int first = std::max(static_cast<int>(std::ceil(centre - reach)), 0);
    const int last =
        std::min(static_cast<int>(std::floor(centre + reach)), from - 1);
    std::vector<double> raw;
    for (int at = first; at <= last; ++at) {
      raw.push_back(std::max(1 - std::abs(at - centre) / reach, 0.0));
    }
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    normalize(raw, taps.weights);
  }
  return all;
}

// One weighted sum along a line whose samples are `stride` apart.
uint8_t apply(const Taps& taps, const uint8_t* line, size_t stride) {
  int64_t sum = 1 << (kWeightBits - 1);
  const uint8_t* at = line + static_cast<size_t>(taps.first) * stride;
  for (const int weight : taps.weights) {
    sum += int64_t{weight} * *at;
    at += stride;
  }
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kWeightBits, 0, 255));
}

Image resize_width(const Image& image, int width) {
  Image out{.height = image.height,
            .width = width,
            .channels = image.channels,
            .pixels = {}};
  const auto channels = static_cast<size_t>(image.channels);
  const size_t row = size_t(image.width) * channels;
  const std::vector<Taps> taps = make_taps(image.width, width);
  out.pixels.reserve(size_t(image.height) * size_t(width) * channels);
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* line = image.pixels.data() + size_t(y) * row;
    for (const Taps& tap : taps) {
      for (size_t c = 0; c < channels; ++c) {
        out.pixels.push_back(apply(tap, line + c, channels));
      }
    }
  }
  return out;
}

Image resize_height(const Image& image, int height) {
  Image out{.height = height,
            .width = image.width,
            .channels = image.channels,
            .pixels = {}};
  const size_t row = size_t(image.width) * size_t(image.channels);
  out.pixels.reserve(size_t(height) * row);
  for (const Taps& tap : make_taps(image.height, height)) {
    for (size_t x = 0; x < row; ++x) {
      out.pixels.push_back(apply(tap, image.pixels.data() + x, row));
    }
  }
  return out;
}

}  // namespace

Image resize_image(const Image& image, int height, int width) {
  DTUNE_CHECK(height > 0 && width > 0 && image.height > 0 && image.width > 0);
  if (image.width == width && image.height == height) return image;
  // The direction that shrinks first leaves less to do for the other.
  if (width <= image.width) {
    return resize_height(resize_width(image, width), height);
  }
  return resize_width(resize_height(image, height), width);
}

}  // namespace dtune
