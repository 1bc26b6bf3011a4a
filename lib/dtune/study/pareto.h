// Trade-offs between the objective and other metrics (`objective.trade_off`).
#pragma once

#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// A trial of the search and what it has, larger is better in each: the
// objective at its best step, then the trade-offs' metrics there.
struct TradedOff {
  const Trial* trial = nullptr;
  const StepReport* report = nullptr;
  std::vector<double> values;
};

// The trials that no other trial is at least as good as in everything and
// better in something, best objective first. Those without results, and those
// that lack one of the metrics, are left out. O(trials^2). Points into the
// study.
std::vector<TradedOff> pareto_front(const Study& study);

}  // namespace dtune
