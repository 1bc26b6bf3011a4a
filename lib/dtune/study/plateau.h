// Whether going on with a search is likely to be worth it.
#pragma once

#include <optional>

#include "dtune/study/study.h"

namespace dtune {

// The probability that `share` times as many trials as there were, tried in
// addition, have a value better than the best by more than `gain` >= 0 (in units
// of the metric). The upper tail of the values of the later half of the trials
// is taken for exponential (Pickands 1975, doi 10.1214/aos/1176343003, with
// shape 0, which errs on the side of going on where the metric has a ceiling):
//   P(one value > v) = k / n exp(-(v - u) / s),
// u the (k + 1)th largest of the n values, k = n / 3, s the mean excess over u
// of the k above. Later values come from a search that knew more, so that they
// stand for those to come. Paused trials count as they are. Empty before there
// are 10 trials with a value. O(trials).
std::optional<double> chance_of_gain(const Study& study, double gain,
                                     double share);

}  // namespace dtune
