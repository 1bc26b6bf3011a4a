#include "dtune/train/augment.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>

#include <doctest/doctest.h>

using namespace dtune;

namespace {

constexpr Shape kColour{.channels = 3, .height = 8, .width = 6};
constexpr Shape kGrey{.channels = 1, .height = 8, .width = 6};
constexpr std::array<float, 3> kMean = {0.2F, 0.4F, 0.6F};

// Every pixel has its own value.
std::vector<uint8_t> picture(const Shape& shape) {
  std::vector<uint8_t> pixels(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>(40 + i);
  }
  return pixels;
}

std::vector<uint8_t> augmented(const Shape& shape, const AugmentKey& key,
                               uint32_t sample = 0) {
  const Augmenter augmenter(
      shape, std::span(kMean).first(static_cast<size_t>(shape.channels)));
  std::vector<uint8_t> out(static_cast<size_t>(shape.elements()));
  augmenter.apply(picture(shape).data(), change_of(sample, shape, key),
                  out.data());
  return out;
}

// Without the border pixel twice.
int mirrored(int at, int size) {
  if (at < 0) return -at;
  return at < size ? at : 2 * (size - 1) - at;
}

}  // namespace

TEST_CASE("a crop moves the image over its mirrored border") {
  const std::vector<uint8_t> original = picture(kGrey);
  std::set<std::tuple<int, int>> seen;
  for (int64_t epoch = 0; epoch < 300; ++epoch) {
    const auto image = augmented(kGrey, {{.crop = 2}, 3, epoch});
    for (int dy = -2; dy <= 2; ++dy) {
      for (int dx = -2; dx <= 2; ++dx) {
        bool equal = true;
        for (int y = 0; y < 8; ++y) {
          for (int x = 0; x < 6; ++x) {
            const int from = mirrored(y - dy, 8) * 6 + mirrored(x - dx, 6);
            equal &= image[size_t(y * 6 + x)] == original[size_t(from)];
          }
        }
        if (equal) seen.insert({dy, dx});
      }
    }
  }
  CHECK(seen.size() == 25);  // every one of them, and nothing else
}

TEST_CASE("a crop wider than the image stays within it") {
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    CHECK(std::ranges::min(augmented(kGrey, {{.crop = 64}, 1, epoch})) >= 40);
  }
  const Shape line{.channels = 1, .height = 1, .width = 6};
  CHECK(std::ranges::min(augmented(line, {{.crop = 5}, 1, 1})) >= 40);
}

TEST_CASE("cutout fills one square with the mean colour") {
  std::set<size_t> sizes;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    const auto image = augmented(kColour, {{.cutout = 4}, 3, epoch});
    const auto original = picture(kColour);
    size_t filled = 0;
    for (size_t i = 0; i < image.size(); i += 3) {
      const bool mean =
          image[i] == 51 && image[i + 1] == 102 && image[i + 2] == 153;
      filled += mean ? 1 : 0;
      if (!mean) CHECK(std::equal(&image[i], &image[i] + 3, &original[i]));
    }
    sizes.insert(filled);
  }
  CHECK(*sizes.rbegin() == 16);  // whole in the middle, less at the border
  CHECK(*sizes.begin() >= 4);
  CHECK(sizes.size() > 3);
}

TEST_CASE("jitter changes brightness, contrast and saturation within bounds") {
  std::set<int> brightness;
  bool saturates = false;
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    const auto image = augmented(kColour, {{.jitter = 0.5}, 3, epoch});
    const int sum = std::accumulate(image.begin(), image.end(), 0);
    brightness.insert(sum / static_cast<int>(image.size()) / 10);
    saturates |= image[2] - image[0] > 4;  // 2 in the original
  }
  // The original's mean is 111; half of it to one and a half times.
  CHECK(*brightness.begin() >= 5);
  CHECK(*brightness.rbegin() <= 17);
  CHECK(brightness.size() > 6);
  CHECK(saturates);
  CHECK(augmented(kGrey, {{.jitter = 0.5}, 3, 1}) !=
        augmented(kGrey, {{.jitter = 0.5}, 3, 2}));
}

TEST_CASE("augmentation depends on seed, epoch and sample alone") {
  const Augmentation all{.flip = true,
                         .shift = 1,
                         .crop = 1,
                         .cutout = 2,
                         .jitter = 0.3,
                         .mixup = 0.5,
                         .cutmix = 0.5};
  const auto image = augmented(kColour, {all, 1, 2}, 3);
  CHECK(image == augmented(kColour, {all, 1, 2}, 3));
  CHECK(image != augmented(kColour, {all, 9, 2}, 3));
  CHECK(image != augmented(kColour, {all, 1, 9}, 3));
  CHECK(image != augmented(kColour, {all, 1, 2}, 9));
  const Mix mix = mix_of(3, 1000, kColour, {all, 1, 2});
  CHECK(mix.other == mix_of(3, 1000, kColour, {all, 1, 2}).other);
  CHECK(mix.other != mix_of(4, 1000, kColour, {all, 1, 2}).other);
}

TEST_CASE("weights of mixup follow a symmetric Beta distribution") {
  constexpr int kDraws = 4000;
  for (const double alpha : {0.001, 0.2, 1.0}) {
    CAPTURE(alpha);
    double sum = 0;
    double squares = 0;
    for (uint32_t sample = 0; sample < kDraws; ++sample) {
      const Mix mix = mix_of(sample, 10, kGrey, {{.mixup = alpha}, 5, 0});
      CHECK(mix.other < 10);
      CHECK(mix.height * mix.width == 0);
      sum += mix.share;
      squares += mix.share * mix.share;
    }
    const double mean = sum / kDraws;
    // The variance is 1 / (4 (2 alpha + 1)); both to some three of their
    // errors.
    CHECK(mean == doctest::Approx(0.5).epsilon(0.05));
    CHECK(squares / kDraws - mean * mean ==
          doctest::Approx(1 / (4 * (2 * alpha + 1))).epsilon(0.06));
  }
}

TEST_CASE("a mixed image has as much of the other as its label") {
  const Augmenter augmenter(kGrey, std::span(kMean).first(1));
  const std::vector<float> other(48, 1);
  bool cut = false;
  bool mixed = false;
  for (uint32_t sample = 0; sample < 200; ++sample) {
    std::vector<float> image(48, 0);
    const Mix mix =
        mix_of(sample, 10, kGrey, {{.mixup = 0.5, .cutmix = 1}, 5, 0});
    augmenter.blend(mix, other.data(), image.data());
    CHECK(std::accumulate(image.begin(), image.end(), 0.0) / 48 ==
          doctest::Approx(1 - mix.share).scale(1).epsilon(1e-5));
    const bool whole =
        std::ranges::all_of(image, [](float x) { return x == 0 || x == 1; });
    cut |= whole && mix.height > 0;
    mixed |= !whole;
  }
  CHECK(cut);
  CHECK(mixed);
}
