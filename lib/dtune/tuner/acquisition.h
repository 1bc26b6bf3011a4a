// What a decision draws: how many steps ahead it looks (as MFPI-random,
// Rakotoarison et al. 2024, "In-context freeze-thaw Bayesian optimization", arXiv
// 2404.16795, section 4; the threshold that it draws besides is replaced by an
// expected gain, SurrogateModel::log_gain), and under which bounds.
#pragma once

#include <cstdint>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Steps ahead, uniform in 1 .. the study's horizon. Depends on its arguments
// alone: a sampler and a scheduler that take the same decision draw the same.
int draw_horizon(uint64_t seed, int64_t decision, int horizon);

// With `objective.trade_off` half of the decisions look for the best point
// under a bound on one of these metrics, so that the whole front moves forward:
// the bound lies at random between the metric's best value and that of the
// trial with the best objective (epsilon-constraints: Haimes, Lasdon and Wismer
// 1971, "On a bicriterion formulation ...", IEEE Transactions on Systems, Man
// and Cybernetics 1; with a bound drawn anew for each decision, as ParEGO does
// with weights: Knowles 2006, doi 10.1109/TEVC.2005.851274). Else, and where
// such a metric has one value, empty.
std::vector<Expectation> draw_bounds(const Study& study, int64_t decision);

// A trial that no other is to be held against than those that are as good in
// all metrics of `objective.trade_off`. Empty where it has reported none.
std::vector<Expectation> bounds_of(const ObjectiveSpec& objective,
                                   const Trial& trial);

}  // namespace dtune
