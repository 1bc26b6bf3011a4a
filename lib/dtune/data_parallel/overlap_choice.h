// Whether gradients are reduced while others are still computed.
#pragma once

#include <vector>

#include "dtune/gang/messages.h"

namespace dtune {

// Overlap hides reductions behind the backward pass, but it commits a rank to a
// round at its first gradient: should the rank stop in what is left of the
// pass, the others are in a reduction that they have to give up and train
// again, where without overlap they would go on past the round's deadline. So
// a rank overlaps where that hides much only: it measures some rounds without,
// now and then, and overlaps in those that follow if their reductions took more
// than kWorth of the computing.
//
// Each rank chooses for itself; a round overlaps as far as its slowest rank
// does. Not thread-safe.
class OverlapChoice {
 public:
  explicit OverlapChoice(bool allowed) : allowed_(allowed) {}

  bool overlaps() const { return overlaps_ && !measures(); }
  // Of each round of training with samples, in their order.
  void observe(const gang::RoundTimes& times);

  static constexpr double kWorth = 0.1;
  static constexpr int kMeasured = 8;  // rounds
  static constexpr int kPeriod = 256;  // from measuring to measuring

 private:
  bool measures() const { return !allowed_ || round_ < kMeasured; }

  bool allowed_;
  bool overlaps_ = false;
  int round_ = 0;  // of the period
  std::vector<double> shares_;
};

}  // namespace dtune
