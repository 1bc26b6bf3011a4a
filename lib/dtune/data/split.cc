#include "dtune/data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

std::vector<int64_t> all_indices(const ImageSet& set) {
  std::vector<int64_t> indices(set.labels.size());
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

// How many of each class to take so that the shares are kept: the floor of the
// ideal, then one more where the shortfall is largest (Hamilton's method).
std::vector<int64_t> class_quotas(const std::vector<int64_t>& sizes,
                                  int64_t count) {
  const auto total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<int64_t> quotas(sizes.size(), 0);
  if (total == 0) return quotas;
  std::vector<double> ideal(sizes.size());
  int64_t given = 0;
  for (size_t c = 0; c < sizes.size(); ++c) {
    ideal[c] = double(count) * double(sizes[c]) / double(total);
    const int64_t most = std::max<int64_t>(sizes[c] - 1, 0);
    quotas[c] = std::min(static_cast<int64_t>(ideal[c]), most);
    given += quotas[c];
  }
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return ideal[a] - double(quotas[a]) > ideal[b] - double(quotas[b]);
  });
  bool room = true;  // until every class is down to its last one
  while (given < count && room) {
    room = false;
    for (const size_t c : order) {
      if (given == count || quotas[c] + 1 >= sizes[c]) continue;
      ++quotas[c];
      ++given;
      room = true;
    }
  }
  return quotas;
}

void check_classes(const DataSpec& spec, const SourceData& source,
                   std::span<const int64_t> train) {
  const std::string path = source_path(spec).string();
  const std::string where = path.empty() ? "data" : path;
  if (source.class_names.size() < 2) {
    fail_data(where, fmt::format("all {} training labels are {}: one class "
                                 "cannot be learnt (give at least two classes, "
                                 "labels 0 and 1)",
                                 train.size(), source.train.labels.front()));
  }
  std::vector<bool> seen(source.class_names.size(), false);
  for (const int64_t i : train) {
    seen[size_t(source.train.labels[size_t(i)])] = true;
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return;
  const auto index = static_cast<size_t>(missing - seen.begin());
  const std::string& name = source.class_names[index];
  const bool from_one = index == 0 && std::find(std::next(missing), seen.end(),
                                                false) == seen.end();
  fail_data(
      where,
      fmt::format(
          "class {}{} has no training samples (labels are 0, 1, ... without "
          "gaps; {})",
          index,
          name == std::to_string(index) ? "" : fmt::format(" ('{}')", name),
          from_one
              ? fmt::format("these are 1 to {}: subtract 1", seen.size() - 1)
              : "give every class an image"));
}

std::vector<int64_t> limit_training(const DataSpec& spec,
                                    const SourceData& source,
                                    std::vector<int64_t> train) {
  const auto have = static_cast<int64_t>(train.size());
  if (spec.limit == 0 || spec.limit >= have) return train;
  const auto classes = static_cast<int64_t>(source.class_names.size());
  if (spec.limit < classes) {
    throw Error(
        ErrorKind::config,
        fmt::format("data.limit: {} is less than one sample for each of "
                    "{} classes",
                    spec.limit, classes));
  }
  return keep_stratified(train, source.train.labels, static_cast<int>(classes),
                         spec.limit, spec.split_seed);
}

}  // namespace

StratifiedSplit take_stratified(std::span<const int64_t> candidates,
                                std::span<const int32_t> labels, int classes,
                                int64_t count, uint64_t seed) {
  std::vector<std::vector<int64_t>> by_class(static_cast<size_t>(classes));
  for (const int64_t i : candidates) {
    by_class[size_t(labels[size_t(i)])].push_back(i);
  }
  std::vector<int64_t> sizes;
  sizes.reserve(by_class.size());
  for (const auto& members : by_class) {
    sizes.push_back(static_cast<int64_t>(members.size()));
  }
  const std::vector<int64_t> quotas = class_quotas(sizes, count);
  StratifiedSplit split;
  for (size_t c = 0; c < by_class.size(); ++c) {
    Rng rng(mix_seed({seed, c}));
    rng.shuffle(std::span(by_class[c]));
    const auto middle = by_class[c].begin() + quotas[c];
    split.taken.insert(split.taken.end(), by_class[c].begin(), middle);
    split.kept.insert(split.kept.end(), middle, by_class[c].end());
  }
  std::sort(split.taken.begin(), split.taken.end());
  std::sort(split.kept.begin(), split.kept.end());
  return split;
}

std::vector<int64_t> keep_stratified(std::span<const int64_t> candidates,
                                     std::span<const int32_t> labels,
                                     int classes, int64_t count,
                                     uint64_t split_seed) {
  const auto have = static_cast<int64_t>(candidates.size());
  return take_stratified(candidates, labels, classes,
                         std::max<int64_t>(have - count, 0),
                         mix_seed({split_seed, hash_text("limit")}))
      .kept;
}

int64_t split_count(std::string_view key, double amount, int64_t total,
                    int64_t least) {
  if (!(amount >= 0) || amount > 1e15) {
    throw Error(ErrorKind::config,
                fmt::format("data.{}: {} is out of range (a share below 1 or a "
                            "number of samples)",
                            key, amount));
  }
  int64_t count = std::llround(amount < 1 ? amount * double(total) : amount);
  if (amount > 0) count = std::max<int64_t>(count, 1);
  if (total - count < least) {
    throw Error(
        ErrorKind::config,
        fmt::format("data.{}: {} takes {} of {} samples and leaves less "
                    "than one of each of {} classes for training (use a "
                    "smaller one)",
                    key, amount, count, total, least));
  }
  return count;
}

const ImageSet& SplitPlan::validation_set(const SourceData& source) const {
  return own_validation ? source.validation : source.train;
}

const ImageSet& SplitPlan::test_set(const SourceData& source) const {
  return own_test ? source.test : source.train;
}

SplitPlan plan_splits(const DataSpec& spec, const SourceData& source) {
  const auto classes = static_cast<int>(source.class_names.size());
  const std::span<const int32_t> labels = source.train.labels;
  SplitPlan plan;
  plan.train = all_indices(source.train);
  check_classes(spec, source, plan.train);
  plan.own_test = source.test.count() > 0;
  plan.own_validation = source.validation.count() > 0;
  const auto take = [&](std::string_view key, double amount) {
    const int64_t count = split_count(
        key, amount, static_cast<int64_t>(plan.train.size()), classes);
    StratifiedSplit split =
        take_stratified(plan.train, labels, classes, count,
                        mix_seed({spec.split_seed, hash_text(key)}));
    plan.train = std::move(split.kept);
    return std::move(split.taken);
  };
  plan.test =
      plan.own_test ? all_indices(source.test) : take("test", spec.test);
  plan.validation = plan.own_validation ? all_indices(source.validation)
                                        : take("validation", spec.validation);
  plan.train = limit_training(spec, source, std::move(plan.train));
  return plan;
}

}  // namespace dtune
