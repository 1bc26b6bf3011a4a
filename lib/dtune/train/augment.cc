#include "dtune/train/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

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

int offset_within(int reach, Rng& rng) {
  return static_cast<int>(rng.below(2 * static_cast<uint64_t>(reach) + 1)) -
         reach;
}

void draw_jitter(double strength, int channels, Rng& rng, Change& by) {
  by.brightness = rng.uniform(1 - strength, 1 + strength);
  by.contrast = rng.uniform(1 - strength, 1 + strength);
  if (channels == 3) by.saturation = rng.uniform(1 - strength, 1 + strength);
}

void draw_square(int side, const Shape& image, Rng& rng, Change& by) {
  const auto range = [&](int size, int& first, int& last) {
    const int begin =
        static_cast<int>(rng.below(static_cast<uint64_t>(size))) - side / 2;
    first = std::clamp(begin, 0, size);
    last = std::clamp(begin + side, 0, size);
  };
  range(image.height, by.top, by.bottom);
  range(image.width, by.left, by.right);
}

// Of a place outside [0, size): inside, with the border pixel not repeated.
int reflect(int at, int size) {
  if (size == 1) return 0;
  const int period = 2 * (size - 1);
  at = ((at % period) + period) % period;
  return at < size ? at : period - at;
}

// Beta(alpha, alpha) for 0 < alpha <= 1 (Joehnk 1964): of two powers of uniform
// numbers whose sum is at most 1, the share of the first.
double symmetric_beta(double alpha, Rng& rng) {
  while (true) {
    const double u = rng.uniform();
    const double v = rng.uniform();
    const double x = std::pow(u, 1 / alpha);
    const double y = std::pow(v, 1 / alpha);
    if (x + y > 1) continue;
    if (x + y == 0) return u > v ? 1 : 0;  // both are too small for a double
    return x / (x + y);
  }
}

uint8_t to_pixel(double value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

// A rectangle of the image's proportions, clipped at its border; the share
// becomes that of the pixels outside of it.
void cut_rectangle(const Shape& image, Rng& rng, Mix& mix) {
  const double scale = std::sqrt(1.0 - double{mix.share});
  const auto side = [&](int size, int& first, int& length) {
    const double half = scale * size / 2;
    const double centre = rng.uniform(0, size);
    first = std::clamp(static_cast<int>(std::lround(centre - half)), 0, size);
    length = std::clamp(static_cast<int>(std::lround(centre + half)), 0, size) -
             first;
  };
  side(image.height, mix.top, mix.height);
  side(image.width, mix.left, mix.width);
  const double area = double(mix.height) * mix.width;
  mix.share =
      static_cast<float>(1 - area / (double(image.height) * image.width));
}

}  // namespace

bool changes_pixels(const Augmentation& augment) {
  return augment.flip || augment.shift > 0 || augment.crop > 0 ||
         augment.cutout > 0 || augment.jitter > 0;
}

bool mixes(const Augmentation& augment) {
  return augment.mixup > 0 || augment.cutmix > 0;
}

Change change_of(uint32_t sample, const Shape& image, const AugmentKey& key) {
  const Augmentation& augment = key.augment;
  Rng rng(mix_seed({key.seed, static_cast<uint64_t>(key.epoch), sample}));
  Change by;
  by.flip = augment.flip && rng.uniform() < 0.5;
  by.dy = offset_within(augment.shift, rng);
  by.dx = offset_within(augment.shift, rng);
  if (augment.crop > 0) {
    by.mirrored_dy = offset_within(augment.crop, rng);
    by.mirrored_dx = offset_within(augment.crop, rng);
  }
  if (augment.jitter > 0) draw_jitter(augment.jitter, image.channels, rng, by);
  if (augment.cutout > 0) draw_square(augment.cutout, image, rng, by);
  return by;
}

Mix mix_of(uint32_t sample, int64_t samples, const Shape& image,
           const AugmentKey& key) {
  DTUNE_CHECK(mixes(key.augment) && samples > 0);
  Rng rng(mix_seed(
      {key.seed, static_cast<uint64_t>(key.epoch), sample, hash_text("mix")}));
  Mix mix;
  mix.other = static_cast<uint32_t>(rng.below(static_cast<uint64_t>(samples)));
  const bool both = key.augment.mixup > 0 && key.augment.cutmix > 0;
  const bool cuts = both ? rng.uniform() < 0.5 : key.augment.cutmix > 0;
  const double alpha = cuts ? key.augment.cutmix : key.augment.mixup;
  mix.share = static_cast<float>(symmetric_beta(alpha, rng));
  if (cuts) cut_rectangle(image, rng, mix);
  return mix;
}

Augmenter::Augmenter(const Shape& image, std::span<const float> mean)
    : shape_(image) {
  DTUNE_CHECK(mean.size() == static_cast<size_t>(image.channels));
  for (const float value : mean) mean_.push_back(to_pixel(255 * double{value}));
}

void Augmenter::apply(const uint8_t* image, const Change& by,
                      uint8_t* out) const {
  if (by.mirrored_dy == 0 && by.mirrored_dx == 0) {
    move(image, by, out);
  } else {
    move_mirrored(image, by, out);
  }
  if (by.brightness != 1 || by.contrast != 1) jitter(by, out);
  if (by.saturation != 1) saturate(by.saturation, out);
  cut_out(by, out);
}

// Mirrors, then shifts; what comes in from outside is black.
void Augmenter::move(const uint8_t* image, const Change& by,
                     uint8_t* out) const {
  const int pixel = shape_.channels;
  const auto row_bytes = static_cast<size_t>(shape_.width) * pixel;
  for (int y = 0; y < shape_.height; ++y, out += row_bytes) {
    std::memset(out, 0, row_bytes);
    if (y - by.dy < 0 || y - by.dy >= shape_.height) continue;
    const uint8_t* row = image + static_cast<size_t>(y - by.dy) * row_bytes;
    const int first = std::clamp(by.dx, 0, shape_.width);
    const int last = std::clamp(shape_.width + by.dx, 0, shape_.width);
    const auto at = static_cast<size_t>(first) * pixel;
    const auto length = static_cast<size_t>(last - first) * pixel;
    if (length == 0) continue;
    if (by.flip) {
      const int from = shape_.width - last + by.dx;
      mirror(row + static_cast<size_t>(from) * pixel, length, pixel, out + at);
    } else {
      std::memcpy(out + at, row + static_cast<size_t>(first - by.dx) * pixel,
                  length);
    }
  }
}

// The same with both kinds of offsets: every pixel by its own coordinates.
void Augmenter::move_mirrored(const uint8_t* image, const Change& by,
                              uint8_t* out) const {
  const auto pixel = static_cast<size_t>(shape_.channels);
  const auto source = [](int at, int shift, int mirrored, int size) {
    const int from = at - shift;
    return from < 0 || from >= size ? -1 : reflect(from - mirrored, size);
  };
  std::vector<int> columns(static_cast<size_t>(shape_.width));
  for (int x = 0; x < shape_.width; ++x) {
    const int from = source(x, by.dx, by.mirrored_dx, shape_.width);
    columns[static_cast<size_t>(x)] =
        from >= 0 && by.flip ? shape_.width - 1 - from : from;
  }
  for (int y = 0; y < shape_.height; ++y) {
    const int from = source(y, by.dy, by.mirrored_dy, shape_.height);
    const uint8_t* row =
        image + static_cast<size_t>(std::max(from, 0)) * columns.size() * pixel;
    for (const int x : columns) {
      for (size_t c = 0; c < pixel; ++c) {
        *out++ =
            from < 0 || x < 0 ? 0 : row[static_cast<size_t>(x) * pixel + c];
      }
    }
  }
}

// Brightness and contrast are one table: v -> contrast (b v - b mean) + b mean.
void Augmenter::jitter(const Change& by, uint8_t* image) const {
  const auto elements = static_cast<size_t>(shape_.elements());
  uint64_t sum = 0;
  for (size_t i = 0; i < elements; ++i) sum += image[i];
  const double mean =
      by.brightness * static_cast<double>(sum) / static_cast<double>(elements);
  std::array<uint8_t, 256> table{};
  for (size_t v = 0; v < table.size(); ++v) {
    const double bright = by.brightness * static_cast<double>(v);
    table[v] = to_pixel(by.contrast * (bright - mean) + mean);
  }
  for (size_t i = 0; i < elements; ++i) image[i] = table[image[i]];
}

// Grey as in data/image.h.
void Augmenter::saturate(double factor, uint8_t* image) const {
  const auto share = static_cast<float>(factor);
  const auto elements = static_cast<size_t>(shape_.elements());
  for (size_t i = 0; i < elements; i += 3) {
    uint8_t* at = image + i;
    const float grey = 0.299F * at[0] + 0.587F * at[1] + 0.114F * at[2];
    for (int c = 0; c < 3; ++c) {
      const float value = grey + share * (at[c] - grey);
      at[c] = static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F) + 0.5F);
    }
  }
}

void Augmenter::cut_out(const Change& by, uint8_t* image) const {
  for (int y = by.top; y < by.bottom; ++y) {
    uint8_t* at =
        image + static_cast<size_t>(y * shape_.width + by.left) * mean_.size();
    for (int x = by.left; x < by.right; ++x) {
      at = std::copy(mean_.begin(), mean_.end(), at);
    }
  }
}

void Augmenter::blend(const Mix& mix, const float* other, float* image) const {
  if (mix.height == 0 && mix.width == 0) {
    const int64_t elements = shape_.elements();
    for (int64_t i = 0; i < elements; ++i) {
      image[i] = mix.share * image[i] + (1 - mix.share) * other[i];
    }
    return;
  }
  for (int y = mix.top; y < mix.top + mix.height; ++y) {
    const auto at = static_cast<size_t>(y * shape_.width + mix.left) *
                    static_cast<size_t>(shape_.channels);
    std::copy_n(other + at, mix.width * shape_.channels, image + at);
  }
}

}  // namespace dtune
