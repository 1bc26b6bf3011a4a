// What every sampler needs: to know which points are taken, and to find one
// that is not and satisfies the constraints.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Trials of the search proposed so far, whatever became of them: the number
// that samplers key their sequences on, so that the same seed proposes the same
// points under any scheduler.
int64_t proposals_so_far(const Study& study);

// A trial of the study, pending or ended, has this very point. O(trials).
bool is_taken(const Study& study, const Point& point);

// The same for many points: O(log trials) each. Points into the study, which
// must not change.
class TakenPoints {
 public:
  explicit TakenPoints(const Study& study);
  bool contains(const Point& point) const { return points_.contains(&point); }

 private:
  struct Less {
    bool operator()(const Point* a, const Point* b) const { return *a < *b; }
  };
  std::set<const Point*, Less> points_;
};

// The first of generate(0), generate(1), ... (points of the unit cube) that,
// decoded, satisfies the space's constraints and is not taken. After a bounded
// number of tries the points of a small discrete space are gone through one by
// one, in an order shuffled by `seed`; empty where that finds none either.
std::optional<Point> first_free_point(
    const Study& study,
    const std::function<std::vector<double>(int64_t)>& generate, uint64_t seed);

// A free point of a discrete space by enumeration, as above; empty where the
// space is continuous, has more than 2^16 points or none is free.
std::optional<Point> any_free_point(const Study& study, uint64_t seed);

}  // namespace dtune
