#include "dtune/train/batch_source.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "dtune/base/file.h"

using namespace dtune;

namespace {

std::shared_ptr<const PreparedData> prepared(const TemporaryDirectory& folder,
                                             int channels = 1) {
  DataSpec data;
  data.kind = DataKind::synthetic;
  data.classes = 3;
  data.samples = 50;
  data.validation = 0.2;
  data.height = 6;
  data.width = 5;
  data.channels = channels;
  return std::make_shared<const PreparedData>(
      prepare_data(data, folder.path()));
}

struct Gathered {
  std::vector<float> images;
  std::vector<int32_t> labels;
};

Gathered gather(const BatchSource& source, std::vector<uint32_t> samples,
                std::optional<AugmentKey> key = std::nullopt) {
  Gathered batch;
  batch.images.resize(samples.size() *
                      static_cast<size_t>(source.image_shape().elements()));
  batch.labels.resize(samples.size());
  source.gather(samples, key, batch.images, batch.labels);
  return batch;
}

Normalization plain(int channels) {
  const auto n = static_cast<size_t>(channels);
  return {std::vector<float>(n, 0), std::vector<float>(n, 1)};
}

}  // namespace

TEST_CASE("pixels are scaled by the mean and deviation of their channel") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder, 2);
  const BatchSource source(data, {Split::train}, {{0.5F, 0.25F}, {2, 4}});
  const Gathered batch = gather(source, {3, 1});
  const auto pixels = data->images(Split::train);
  const size_t elements = 6 * 5 * 2;
  for (size_t j = 0; j < elements; ++j) {
    const float mean = j % 2 == 0 ? 0.5F : 0.25F;
    const float deviation = j % 2 == 0 ? 2 : 4;
    const float pixel = static_cast<float>(pixels[3 * elements + j]);
    CHECK(batch.images[j] ==
          doctest::Approx((pixel / 255 - mean) / deviation).scale(0.1));
  }
  CHECK(batch.labels[0] == data->labels(Split::train)[3]);
  CHECK(batch.labels[1] == data->labels(Split::train)[1]);
}

TEST_CASE("the training split's own scale gives mean 0 and deviation 1") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder);
  const BatchSource source(data, {Split::train}, normalization_of(*data, true));
  std::vector<uint32_t> all(static_cast<size_t>(source.count()));
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  double sum = 0, squares = 0;
  const Gathered batch = gather(source, all);
  for (const float x : batch.images) {
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(batch.images.size());
  CHECK(sum / n == doctest::Approx(0).scale(1).epsilon(1e-3));
  CHECK(squares / n == doctest::Approx(1).epsilon(1e-2));
}

TEST_CASE("two splits follow each other") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder);
  const BatchSource both(data, {Split::train, Split::validation}, plain(1));
  const auto training = static_cast<uint32_t>(data->count(Split::train));
  CHECK(both.count() == 50);
  CHECK(training == 40);
  const BatchSource validation(data, {Split::validation}, plain(1));
  CHECK(gather(both, {training + 2}).images == gather(validation, {2}).images);
  int64_t total = 0;
  for (const int64_t n : both.class_counts()) total += n;
  CHECK(total == 50);
}

TEST_CASE("samples that are kept are numbered anew") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder);
  const BatchSource all(data, {Split::train, Split::validation}, plain(1));
  BatchSource some = all;
  some.keep({1, 7, 43, 45});
  some.keep({0, 2, 3});  // of those
  CHECK(some.count() == 3);
  CHECK(some.place_of(1) == 43);
  const Gathered batch = gather(some, {2, 0});
  CHECK(batch.images == gather(all, {45, 1}).images);
  CHECK(batch.labels == gather(all, {45, 1}).labels);
  CHECK(some.labels() == gather(all, {1, 43, 45}).labels);
  std::vector<int64_t> counts(3);
  for (const int32_t label : some.labels()) ++counts[size_t(label)];
  CHECK(some.class_counts() == counts);
}

TEST_CASE("flips and shifts move pixels and fill with black") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder, 2);
  const BatchSource source(data, {Split::train}, plain(2));
  const Gathered original = gather(source, {7});
  const auto at = [](const Gathered& image, int y, int x, int c) {
    const bool inside = 0 <= y && y < 6 && 0 <= x && x < 5;
    return inside ? image.images[size_t(((y * 5) + x) * 2 + c)] : 0.0F;
  };
  const auto equals = [&](const Gathered& image, bool flip, int dy, int dx) {
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 5; ++x) {
        const int from = flip ? 4 - (x - dx) : x - dx;
        const bool inside = 0 <= x - dx && x - dx < 5;
        for (int c = 0; c < 2; ++c) {
          const float expected = inside ? at(original, y - dy, from, c) : 0;
          if (at(image, y, x, c) != expected) return false;
        }
      }
    }
    return true;
  };
  std::set<std::tuple<bool, int, int>> seen;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    const AugmentKey key{{.flip = true, .shift = 1}, 5, epoch};
    const Gathered image = gather(source, {7}, key);
    for (const bool flip : {false, true}) {
      for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
          if (equals(image, flip, dy, dx)) seen.insert({flip, dy, dx});
        }
      }
    }
  }
  CHECK(seen.size() == 18);  // every one of them, and nothing else
}

TEST_CASE("a sample's augmentation does not depend on its batch") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder);
  const BatchSource source(data, {Split::train}, plain(1));
  const AugmentKey key{{.flip = true, .shift = 2}, 9, 4};
  const Gathered pair = gather(source, {5, 8}, key);
  const Gathered alone = gather(source, {8}, key);
  CHECK(std::equal(alone.images.begin(), alone.images.end(),
                   pair.images.begin() + 30));
}

TEST_CASE("mixed samples have labels of those whose images they have") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder);
  const BatchSource source(data, {Split::train}, plain(1));
  const AugmentKey key{{.mixup = 1}, 9, 4};
  const std::vector<uint32_t> samples = {5, 8, 11};
  const Gathered batch = gather(source, samples, key);
  LabelMix mix;
  source.append_mix(samples, key, mix);
  REQUIRE(mix.shares.size() == 3);
  const auto pixels = data->images(Split::train);
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t other =
        mix_of(samples[i], source.count(), source.image_shape(), key).other;
    CHECK(batch.labels[i] == data->labels(Split::train)[samples[i]]);
    CHECK(mix.others[i] == data->labels(Split::train)[other]);
    const float own = mix.shares[i] * pixels[samples[i] * 30 + 7];
    const float rest = (1 - mix.shares[i]) * pixels[other * 30 + 7];
    CHECK(batch.images[i * 30 + 7] == doctest::Approx((own + rest) / 255));
  }
  LabelMix none;
  source.append_mix(samples, {{.flip = true}, 9, 4}, none);
  CHECK(none.others.empty());
}

TEST_CASE("shifts wider than the image leave it black") {
  const TemporaryDirectory folder;
  const auto data = prepared(folder);
  const BatchSource source(data, {Split::train}, plain(1));
  bool black = false;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Gathered image =
        gather(source, {0}, AugmentKey{{.shift = 100}, 1, epoch});
    black |= std::all_of(image.images.begin(), image.images.end(),
                         [](float x) { return x == 0; });
  }
  CHECK(black);
}

TEST_CASE("an epoch holds every sample once, in an order of its own") {
  BatchOrder order(10, 4, 1);
  std::vector<std::vector<uint32_t>> epochs(2);
  int64_t position = 0;
  while (position < 20) {
    const BatchRange batch = order.at(position);
    const auto samples = order.samples(batch);
    auto& epoch = epochs[static_cast<size_t>(batch.epoch)];
    epoch.insert(epoch.end(), samples.begin(), samples.end());
    position += batch.size;
  }
  CHECK(epochs[0] != epochs[1]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    CHECK(epoch == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
}

TEST_CASE("the last batch takes what remains, one sample joins another") {
  const BatchOrder order(10, 4, 1);
  CHECK(order.at(8).size == 2);
  CHECK(order.at(8).number == 2);
  CHECK(order.at(10).number == 3);
  CHECK(order.at(10).epoch == 1);
  const BatchOrder joined(9, 4, 1);
  CHECK(joined.at(4).size == 5);
  CHECK(joined.at(9).number == 2);
  CHECK(joined.largest_batch() == 5);
  const BatchOrder single(3, 1, 1);
  CHECK(single.at(2).size == 1);
  const BatchOrder large(3, 100, 1);
  CHECK(large.at(0).size == 3);
  CHECK(large.largest_batch() == 3);
}
