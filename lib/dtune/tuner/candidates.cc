#include "dtune/tuner/candidates.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "dtune/base/random.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr uint64_t kMaxEnumerated = uint64_t{1} << 16;
constexpr int64_t kFewTries = 4;
constexpr int64_t kMaxTries = 20'000;

// More tries than a coupon collector needs for the rarer points would be slower
// than enumeration.
int64_t tries_for(const SearchSpace& space) {
  const std::optional<uint64_t> count = space.cardinality();
  if (!count || *count > kMaxEnumerated) return kMaxTries;
  return std::min(kMaxTries, static_cast<int64_t>(4 * *count));
}

// The point with the given number in the mixed-radix order of the values.
Point numbered_point(const SearchSpace& space, uint64_t number) {
  std::vector<double> unit;
  for (const Parameter& parameter : space.parameters()) {
    const uint64_t count = *value_count(parameter);
    unit.push_back(cell_middle(parameter, number % count));
    number /= count;
  }
  return space.decode(unit);
}

}  // namespace

int64_t proposals_so_far(const Study& study) {
  return std::count_if(
      study.trials.begin(), study.trials.end(),
      [](const Trial& trial) { return trial.kind == TrialKind::search; });
}

bool is_taken(const Study& study, const Point& point) {
  return std::any_of(study.trials.begin(), study.trials.end(),
                     [&](const Trial& trial) { return trial.point == point; });
}

TakenPoints::TakenPoints(const Study& study) {
  for (const Trial& trial : study.trials) points_.insert(&trial.point);
}

std::optional<Point> first_free_point(
    const Study& study,
    const std::function<std::vector<double>(int64_t)>& generate,
    uint64_t seed) {
  const SearchSpace& space = study.recipe.space;
  const int64_t tries = tries_for(space);
  std::optional<TakenPoints> taken;  // as dear as many single looks
  for (int64_t i = 0; i < tries; ++i) {
    Point point = space.decode(generate(i));
    if (!space.satisfies(point)) continue;
    if (i >= kFewTries && !taken) taken.emplace(study);
    if (taken ? !taken->contains(point) : !is_taken(study, point)) return point;
  }
  return any_free_point(study, seed);
}

std::optional<Point> any_free_point(const Study& study, uint64_t seed) {
  const SearchSpace& space = study.recipe.space;
  const std::optional<uint64_t> count = space.cardinality();
  if (!count || *count > kMaxEnumerated) return std::nullopt;
  std::vector<uint32_t> order(*count);
  std::iota(order.begin(), order.end(), 0);
  Rng(seed).shuffle(std::span(order));
  const TakenPoints taken(study);
  for (const uint32_t number : order) {
    Point point = numbered_point(space, number);
    if (space.satisfies(point) && !taken.contains(point)) return point;
  }
  return std::nullopt;
}

}  // namespace dtune
