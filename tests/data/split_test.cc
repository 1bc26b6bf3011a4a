#include "dtune/data/split.h"

#include <algorithm>
#include <numeric>

#include "data/fixtures.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/data/synthetic.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

// One pixel a sample, `sizes[c]` samples of class c, classes interleaved.
SourceData unbalanced(std::vector<int> sizes) {
  SourceData data;
  data.train = {
      .height = 1, .width = 1, .channels = 1, .images = {}, .labels = {}};
  for (size_t c = 0; c < sizes.size(); ++c) {
    data.class_names.push_back(std::to_string(c));
  }
  while (std::any_of(sizes.begin(), sizes.end(), [](int n) { return n > 0; })) {
    for (size_t c = 0; c < sizes.size(); ++c) {
      if (sizes[c]-- <= 0) continue;
      data.train.labels.push_back(static_cast<int32_t>(c));
      data.train.images.push_back(static_cast<uint8_t>(c));
    }
  }
  return data;
}

// What a recipe says of splits.
struct Amounts {
  double validation = 0.1;
  double test = 0.15;
  uint64_t seed = 0;
  int64_t limit = 0;
};

SplitPlan plan_of(const SourceData& data, const Amounts& amounts) {
  DataSpec spec;
  spec.validation = amounts.validation;
  spec.test = amounts.test;
  spec.split_seed = amounts.seed;
  spec.limit = amounts.limit;
  return plan_splits(spec, data);
}

std::vector<int> count_by_class(const std::vector<int64_t>& indices,
                                const ImageSet& set, size_t classes) {
  std::vector<int> counts(classes, 0);
  for (const int64_t i : indices) ++counts[size_t(set.labels[size_t(i)])];
  return counts;
}

}  // namespace

TEST_CASE("every class keeps its share in every split") {
  const SourceData data = unbalanced({100, 50, 10});
  const SplitPlan plan = plan_of(data, {.validation = 0.1, .test = 0.2});
  CHECK(count_by_class(plan.test, data.train, 3) ==
        std::vector<int>{20, 10, 2});
  CHECK(count_by_class(plan.validation, data.train, 3) ==
        std::vector<int>{8, 4, 1});
  CHECK(count_by_class(plan.train, data.train, 3) ==
        std::vector<int>{72, 36, 7});
}

TEST_CASE("splits hold every sample once") {
  const SourceData data = unbalanced({40, 30, 30});
  const SplitPlan plan = plan_of(data, {.validation = 15});
  CHECK(plan.validation.size() == 15);
  CHECK(plan.test.size() == 15);
  std::vector<int64_t> all = plan.train;
  all.insert(all.end(), plan.validation.begin(), plan.validation.end());
  all.insert(all.end(), plan.test.begin(), plan.test.end());
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), int64_t{0});
  CHECK(all == expected);
}

TEST_CASE("splits depend on the split seed and on nothing else") {
  const SourceData data = unbalanced({40, 30, 30});
  const auto validation = [&](const Amounts& amounts) {
    return plan_of(data, amounts).validation;
  };
  const auto first = validation({.seed = 1});
  CHECK(first == validation({.seed = 1}));
  CHECK(first != validation({.seed = 2}));
  CHECK(first == validation({.seed = 1, .limit = 20}));
}

TEST_CASE("a limit thins the training samples by class and nothing else") {
  const SourceData data = unbalanced({100, 50, 10});
  const SplitPlan plan =
      plan_of(data, {.validation = 16, .test = 0, .limit = 18});
  CHECK(plan.validation.size() == 16);
  CHECK(plan.test.empty());
  CHECK(count_by_class(plan.train, data.train, 3) ==
        std::vector<int>{11, 6, 1});
}

TEST_CASE("a smaller limit keeps samples of a larger one") {
  const SourceData data = unbalanced({96, 48, 16});
  std::vector<int64_t> all(160);
  std::iota(all.begin(), all.end(), int64_t{0});
  const auto kept = [&](int64_t count) {
    return keep_stratified(all, data.train.labels, 3, count, 5);
  };
  CHECK(kept(160) == all);
  CHECK(kept(200) == all);
  std::vector<int64_t> larger = all;
  for (const int64_t count : {80, 40, 20, 10}) {
    const std::vector<int64_t> fewer = kept(count);
    CHECK(fewer.size() == static_cast<size_t>(count));
    CHECK(std::includes(larger.begin(), larger.end(), fewer.begin(),
                        fewer.end()));
    CHECK(plan_of(data, {.validation = 0, .test = 0, .seed = 5, .limit = count})
              .train == fewer);
    larger = fewer;
  }
}

TEST_CASE("a source's own validation and test splits are used whole") {
  SourceData data = unbalanced({10, 10});
  data.validation = unbalanced({2, 3}).train;
  data.test = unbalanced({4, 4}).train;
  const SplitPlan plan = plan_of(data, {.validation = 0.5, .test = 0.5});
  CHECK(plan.train.size() == 20);
  CHECK(plan.validation.size() == 5);
  CHECK(plan.test.size() == 8);
  CHECK(&plan.validation_set(data) == &data.validation);
  CHECK(&plan.test_set(data) == &data.test);
}

TEST_CASE("the rarest class keeps a training sample") {
  const SourceData data = unbalanced({50, 1});
  const SplitPlan plan = plan_of(data, {.validation = 0.5});
  CHECK(count_by_class(plan.train, data.train, 2)[1] == 1);
}

TEST_CASE("amounts that do not work out are refused") {
  const SourceData data = unbalanced({10, 10, 10});
  const auto error = [&](const Amounts& amounts) {
    return error_of([&] { plan_of(data, amounts); }, "/");
  };
  CHECK(error({.validation = 100, .test = 0}) ==
        "config: data.validation: 100 takes 100 of 30 samples and leaves less "
        "than one of each of 3 classes for training (use a smaller one)");
  CHECK(error({.test = -0.5}) ==
        "config: data.test: -0.5 is out of range (a share below 1 or a number "
        "of samples)");
  CHECK(error({.limit = 2}) ==
        "config: data.limit: 2 is less than one sample for each of 3 classes");
}

TEST_CASE("a class without training samples is refused") {
  SourceData data = unbalanced({5, 0, 5});
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = "x.npz";
  const auto plan = [&] { plan_splits(spec, data); };
  CHECK(error_of(plan, "/") ==
        "data: x.npz: class 1 has no training samples (labels are 0, 1, ... "
        "without gaps; give every class an image)");
  data.class_names[1] = "cat";
  CHECK(
      error_of(plan, "/") ==
      "data: x.npz: class 1 ('cat') has no training samples (labels are 0, 1, "
      "... without gaps; give every class an image)");
  data = unbalanced({0, 5, 5});
  CHECK(error_of(plan, "/") ==
        "data: x.npz: class 0 has no training samples (labels are 0, 1, ... "
        "without gaps; these are 1 to 2: subtract 1)");
}
