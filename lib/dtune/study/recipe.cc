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
constexpr Words<4> kPrecisions = {"auto", "fp32", "tf32", "bf16"};
static_assert(size_t(Precision::bf16) + 1 == kPrecisions.size());
constexpr Words<2> kGoals = {"maximize", "minimize"};
static_assert(size_t(Goal::minimize) + 1 == kGoals.size());
constexpr Words<2> kFidelities = {"epochs", "data.limit"};
static_assert(size_t(FidelityKind::data_limit) + 1 == kFidelities.size());
constexpr Words<2> kFailedResults = {"ignore", "use"};
static_assert(size_t(FailedResults::use) + 1 == kFailedResults.size());
constexpr Words<2> kKeeps = {"best", "last"};
static_assert(size_t(FinalKeep::last) + 1 == kKeeps.size());
constexpr Words<3> kThresholds = {"half", "accuracy", "balanced"};
static_assert(size_t(ThresholdRule::balanced) + 1 == kThresholds.size());
constexpr Words<4> kComparisons = {"<", "<=", ">", ">="};
static_assert(size_t(Comparison::greater_equal) + 1 == kComparisons.size());
constexpr Words<4> kModes = {"none", "data", "model", "hybrid"};
static_assert(size_t(ParallelMode::hybrid) + 1 == kModes.size());
constexpr Words<2> kSyncs = {"allreduce", "ps"};
static_assert(size_t(SyncKind::ps) + 1 == kSyncs.size());
constexpr Words<2> kPolicies = {"auto", "off"};
static_assert(size_t(StragglerPolicy::off) + 1 == kPolicies.size());
constexpr Words<3> kPredictors = {"lstm", "ema", "last"};
static_assert(size_t(PredictorKind::last) + 1 == kPredictors.size());
constexpr Words<3> kConsistencies = {"sync", "ssp", "async"};
static_assert(size_t(Consistency::async) + 1 == kConsistencies.size());
constexpr Words<3> kStalenessRules = {"delay-adaptive", "inverse", "none"};
static_assert(size_t(StalenessRule::none) + 1 == kStalenessRules.size());
constexpr Words<3> kCompensations = {"none", "dc-asgd", "dc-asgd-a"};
static_assert(size_t(Compensation::adaptive) + 1 == kCompensations.size());
constexpr Words<2> kPipelines = {"1f1b", "gpipe"};
static_assert(size_t(PipelineSchedule::gpipe) + 1 == kPipelines.size());

}  // namespace

bool Expectation::holds(double value) const {
  switch (comparison) {
    case Comparison::less:
      return value < bound;
    case Comparison::less_equal:
      return value <= bound;
    case Comparison::greater:
      return value > bound;
    case Comparison::greater_equal:
      return value >= bound;
  }
  return false;
}

int gang_members(const ParallelSpec& parallel) {
  const bool servers =
      parallel.mode == ParallelMode::data && parallel.sync == SyncKind::ps;
  return parallel.ranks + (servers ? parallel.ps.servers : 0);
}

const char* default_scheduler(const std::string& sampler) {
  if (sampler == "gp" || sampler == "grid") return "fifo";
  if (sampler == "tpe") return "median";
  const bool models =
      sampler != "random" && sampler != "sobol" && sampler != "halton";
  return models ? "freeze-thaw" : "asha";
}

const char* to_string(DataKind kind) { return word_of(kDataKinds, kind); }
const char* to_string(OptimizerKind kind) { return word_of(kOptimizers, kind); }
const char* to_string(ScheduleKind kind) { return word_of(kSchedules, kind); }
const char* to_string(LossKind kind) { return word_of(kLosses, kind); }
const char* to_string(Precision precision) {
  return word_of(kPrecisions, precision);
}
const char* to_string(Goal goal) { return word_of(kGoals, goal); }
const char* to_string(FidelityKind kind) { return word_of(kFidelities, kind); }
const char* to_string(FailedResults results) {
  return word_of(kFailedResults, results);
}
const char* to_string(FinalKeep keep) { return word_of(kKeeps, keep); }
const char* to_string(ThresholdRule rule) { return word_of(kThresholds, rule); }
const char* to_string(Comparison comparison) {
  return word_of(kComparisons, comparison);
}

const char* to_string(ParallelMode mode) { return word_of(kModes, mode); }
const char* to_string(SyncKind sync) { return word_of(kSyncs, sync); }
const char* to_string(StragglerPolicy policy) {
  return word_of(kPolicies, policy);
}
const char* to_string(PredictorKind kind) { return word_of(kPredictors, kind); }
const char* to_string(Consistency consistency) {
  return word_of(kConsistencies, consistency);
}
const char* to_string(StalenessRule rule) {
  return word_of(kStalenessRules, rule);
}
const char* to_string(Compensation compensation) {
  return word_of(kCompensations, compensation);
}
const char* to_string(PipelineSchedule schedule) {
  return word_of(kPipelines, schedule);
}

}  // namespace dtune
