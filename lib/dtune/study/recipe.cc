#include "dtune/study/recipe.h"

#include "dtune/study/words.h"

namespace dtune {
namespace {

constexpr Words<7> kDataKinds = {"fashion-mnist", "mnist", "cifar10",
                                 "cifar100",      "npz",   "folder",
                                 "synthetic"};
static_assert(size_t(DataKind::synthetic) + 1 == kDataKinds.size());
constexpr Words<3> kOptimizers = {"sgd", "adam", "adamw"};
static_assert(size_t(OptimizerKind::adamw) + 1 == kOptimizers.size());
constexpr Words<3> kSchedules = {"constant", "step", "cosine"};
static_assert(size_t(ScheduleKind::cosine) + 1 == kSchedules.size());
constexpr Words<2> kLosses = {"cross_entropy", "focal"};
static_assert(size_t(LossKind::focal) + 1 == kLosses.size());
constexpr Words<2> kGoals = {"maximize", "minimize"};
static_assert(size_t(Goal::minimize) + 1 == kGoals.size());
constexpr Words<4> kComparisons = {"<", "<=", ">", ">="};
static_assert(size_t(Comparison::greater_equal) + 1 == kComparisons.size());

}  // namespace

const char* to_string(DataKind kind) { return word_of(kDataKinds, kind); }
const char* to_string(OptimizerKind kind) { return word_of(kOptimizers, kind); }
const char* to_string(ScheduleKind kind) { return word_of(kSchedules, kind); }
const char* to_string(LossKind kind) { return word_of(kLosses, kind); }
const char* to_string(Goal goal) { return word_of(kGoals, goal); }
const char* to_string(Comparison comparison) {
  return word_of(kComparisons, comparison);
}

}  // namespace dtune
