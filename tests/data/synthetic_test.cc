#include "dtune/data/synthetic.h"

#include <limits>

#include "data/fixtures.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

DataSpec spec_of(double difficulty) {
  DataSpec spec;
  spec.kind = DataKind::synthetic;
  spec.height = 12;
  spec.width = 12;
  spec.samples = 2000;
  spec.difficulty = difficulty;
  return spec;
}

// Test accuracy of the nearest class mean: what any model should reach.
double centroid_accuracy(const SourceData& data) {
  const size_t pixels = data.train.images.size() / data.train.labels.size();
  std::vector<std::vector<double>> means(data.class_names.size(),
                                         std::vector<double>(pixels, 0));
  std::vector<double> counts(means.size(), 0);
  for (size_t i = 0; i < data.train.labels.size(); ++i) {
    const auto label = static_cast<size_t>(data.train.labels[i]);
    ++counts[label];
    for (size_t p = 0; p < pixels; ++p) {
      means[label][p] += data.train.images[i * pixels + p];
    }
  }
  size_t right = 0;
  for (size_t i = 0; i < data.test.labels.size(); ++i) {
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < means.size(); ++c) {
      double distance = 0;
      for (size_t p = 0; p < pixels; ++p) {
        const double gap =
            means[c][p] / counts[c] - data.test.images[i * pixels + p];
        distance += gap * gap;
      }
      if (distance < least) {
        least = distance;
        best = c;
      }
    }
    right += best == static_cast<size_t>(data.test.labels[i]) ? 1 : 0;
  }
  return double(right) / double(data.test.labels.size());
}

}  // namespace

TEST_CASE("difficulty goes from trivial to chance") {
  const double easy = centroid_accuracy(make_synthetic(spec_of(0)));
  const double middle = centroid_accuracy(make_synthetic(spec_of(0.5)));
  const double hard = centroid_accuracy(make_synthetic(spec_of(0.75)));
  const double chance = centroid_accuracy(make_synthetic(spec_of(1)));
  MESSAGE("nearest mean: " << easy << ", " << middle << ", " << hard << ", "
                           << chance);
  CHECK(easy > 0.98);
  CHECK(middle > 0.6);
  CHECK(middle < easy);
  CHECK(hard < middle);
  CHECK(hard > 0.15);
  CHECK(chance < 0.15);  // 500 samples of 10 classes: 0.1 +- 0.013
}

TEST_CASE("a synthetic set is the same bits everywhere") {
  const SourceData data = make_synthetic(spec_of(0.5));
  const std::string bytes(data.train.images.begin(), data.train.images.end());
  CHECK(hash_text(bytes) == 6302775964217701933ULL);  // as first made
  CHECK(make_synthetic(spec_of(0.5)).train.images == data.train.images);
}

TEST_CASE("another seed makes another set") {
  DataSpec other = spec_of(0.5);
  other.split_seed = 1;
  CHECK(make_synthetic(other).train.images !=
        make_synthetic(spec_of(0.5)).train.images);
}

TEST_CASE("a synthetic set has the sizes that were asked for") {
  DataSpec spec;
  spec.kind = DataKind::synthetic;
  spec.classes = 3;
  spec.channels = 3;
  spec.samples = 40;
  const SourceData data = make_synthetic(spec);
  CHECK(data.train.count() == 40);
  CHECK(data.test.count() == 10);
  CHECK(data.train.channels == 3);
  CHECK(data.train.height == 28);
  CHECK(data.class_names.size() == 3);
  CHECK(data.train.images.size() == size_t(40 * 28 * 28 * 3));
}

TEST_CASE("sizes of a synthetic set that make no sense are refused") {
  const auto error = [](auto change) {
    DataSpec spec = spec_of(0.5);
    change(spec);
    return error_of([&] { make_synthetic(spec); }, "/");
  };
  CHECK(error([](DataSpec& s) { s.classes = 1; }) ==
        "config: data: classes: 1 is out of range (2 to 100000)");
  CHECK(error([](DataSpec& s) { s.samples = 5; }) ==
        "config: data: samples: 5 is less than one for each of 10 classes");
  CHECK(error([](DataSpec& s) { s.difficulty = 1.5; }) ==
        "config: data: difficulty: 1.5 is out of range (0 to 1)");
  CHECK(error([](DataSpec& s) { s.channels = 0; }) ==
        "config: data: images of 0x12x12 are out of range");
  CHECK(error([](DataSpec& s) { s.samples = int64_t{1} << 61; }) ==
        "config: data: this many samples of this size are out of range");
  CHECK(error([](DataSpec& s) { s.samples = int64_t{1} << 50; })
            .find("data: data (synthetic): needs 180.0 PiB of memory, this "
                  "machine has ") == 0);
}
