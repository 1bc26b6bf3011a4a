#include "dtune/data_parallel/overlap_choice.h"

#include <utility>

#include "dtune/base/order_statistic.h"

namespace dtune {

void OverlapChoice::observe(const gang::RoundTimes& times) {
  if (!allowed_) return;
  const bool measured = measures();
  round_ = (round_ + 1) % kPeriod;
  if (!measured) return;
  if (times.compute() > 0) shares_.push_back(times.exposed / times.compute());
  if (measures() || shares_.empty()) return;
  overlaps_ = upper_median(std::exchange(shares_, {})) > kWorth;
}

}  // namespace dtune
