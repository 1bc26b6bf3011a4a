#include "dtune/tuner/candidates.h"

#include <algorithm>
#include <numeric>

#include "dtune/base/random.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr uint64_t kMaxEnumerated = uint64_t{1} << 16;
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

uint64_t hash_point(const Point& point) {
  uint64_t hash = 0;
  for (const auto& [name, value] : point) {
    hash = mix_seed(
        {hash, hash_text(name), value.index(), std::hash<Value>()(value)});
  }
  return hash;
}

bool TakenPoints::goes_on(const Study& study) const {
  return study_id_ == study.id && study.trials.size() >= trials_ &&
         (trials_ == 0 || hash_point(study.trials[trials_ - 1].point) == last_);
}

bool TakenPoints::update(const Study& study) {
  const bool anew = !goes_on(study);
  if (anew) *this = TakenPoints();
  study_id_ = study.id;
  for (; trials_ < study.trials.size(); ++trials_) {
    const Trial& trial = study.trials[trials_];
    last_ = hash_point(trial.point);
    keys_.insert(last_);
    if (trial.kind == TrialKind::search) ++proposals_;
  }
  return anew;
}

std::optional<Point> first_free_point(
    const SearchSpace& space, const TakenPoints& taken,
    const std::function<std::vector<double>(int64_t)>& generate,
    uint64_t seed) {
  const int64_t tries = tries_for(space);
  for (int64_t i = 0; i < tries; ++i) {
    Point point = space.decode(generate(i));
    if (space.satisfies(point) && !taken.contains(point)) return point;
  }
  return any_free_point(space, taken, seed);
}

std::optional<Point> any_free_point(const SearchSpace& space,
                                    const TakenPoints& taken, uint64_t seed) {
  const std::optional<uint64_t> count = space.cardinality();
  if (!count || *count > kMaxEnumerated) return std::nullopt;
  std::vector<uint32_t> order(*count);
  std::iota(order.begin(), order.end(), 0);
  Rng(seed).shuffle(std::span(order));
  for (const uint32_t number : order) {
    Point point = numbered_point(space, number);
    if (space.satisfies(point) && !taken.contains(point)) return point;
  }
  return std::nullopt;
}

}  // namespace dtune
