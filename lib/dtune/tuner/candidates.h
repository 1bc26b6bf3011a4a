// What every sampler needs: to know which points are taken, and to find one
// that is not and satisfies the constraints.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Trials of the search proposed so far, whatever became of them: the number
// that samplers key their sequences on, so that the same seed proposes the same
// points under any scheduler.
int64_t proposals_so_far(const Study& study);

// A key for sets of points; equal points have equal keys.
uint64_t hash_point(const Point& point);

// The points that trials of a study have, pending or ended, kept up to date as
// trials are added: samplers ask for many points, and a study may have a
// hundred thousand trials. Two points that differ have the same key (64 bits)
// with a chance that does not matter: one is passed over then. Not thread-safe.
//
// A cache, not a state: update() reads every trial again if the study is
// another one. A trial's point never changes.
class TakenPoints {
 public:
  // Whether all was read again. O(new trials).
  bool update(const Study& study);

  // O(1).
  bool contains(const Point& point) const {
    return contains_key(hash_point(point));
  }
  bool contains_key(uint64_t key) const { return keys_.contains(key); }
  // Trials of the search, as proposals_so_far.
  int64_t proposals() const { return proposals_; }

 private:
  bool goes_on(const Study& study) const;

  std::string study_id_;
  size_t trials_ = 0;
  uint64_t last_ = 0;  // key of the last trial
  int64_t proposals_ = 0;
  std::unordered_set<uint64_t> keys_;
};

// The first of generate(0), generate(1), ... (points of the unit cube) that,
// decoded, satisfies the space's constraints and is not taken. After a bounded
// number of tries the points of a small discrete space are gone through one by
// one, in an order shuffled by `seed`; empty where that finds none either.
std::optional<Point> first_free_point(
    const SearchSpace& space, const TakenPoints& taken,
    const std::function<std::vector<double>(int64_t)>& generate, uint64_t seed);

// A free point of a discrete space by enumeration, as above; empty where the
// space is continuous, has more than 2^16 points or none is free.
std::optional<Point> any_free_point(const SearchSpace& space,
                                    const TakenPoints& taken, uint64_t seed);

}  // namespace dtune
