// Stratified splits: every class keeps its share in each part.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dtune/data/prepared.h"

namespace dtune {

struct StratifiedSplit {
  std::vector<int64_t> kept;   // ascending
  std::vector<int64_t> taken;  // ascending
};

// Takes `count` of `candidates` (indices into `labels`), from each class in
// proportion (largest remainders), drawn by `seed` alone; leaves each class at
// least one. Takes fewer where that does not allow more.
StratifiedSplit take_stratified(std::span<const int64_t> candidates,
                                std::span<const int32_t> labels, int classes,
                                int64_t count, uint64_t seed);

// `count` of `candidates`, as take_stratified leaves them: what data.limit
// keeps. Those of a smaller count are among those of a larger one (of each
// class but for one, where its share rounds the other way). At least one of
// each class; all where there are no more.
std::vector<int64_t> keep_stratified(std::span<const int64_t> candidates,
                                     std::span<const int32_t> labels,
                                     int classes, int64_t count,
                                     uint64_t split_seed);

// A recipe's share (< 1) or number (>= 1) of `total` samples as a number; a
// share above 0 takes at least one. Throws Error(config) naming `key` where it
// leaves less than `least`.
int64_t split_count(std::string_view key, double amount, int64_t total,
                    int64_t least);

// Which sample of a source goes where. Where a source has a validation or test
// split of its own, the indices are all of it.
struct SplitPlan {
  std::vector<int64_t> train;       // into source.train
  std::vector<int64_t> validation;  // into validation_set()
  std::vector<int64_t> test;        // into test_set()
  bool own_validation = false;      // the source's, not taken from train
  bool own_test = false;

  const ImageSet& validation_set(const SourceData& source) const;
  const ImageSet& test_set(const SourceData& source) const;
};

// Test first (where the source has none), validation from the rest, then
// spec.limit from what is left for training: the limit moves neither of the
// others. Throws Error(config) for amounts that do not work out, Error(data)
// for a class without training samples.
SplitPlan plan_splits(const DataSpec& spec, const SourceData& source);

}  // namespace dtune
