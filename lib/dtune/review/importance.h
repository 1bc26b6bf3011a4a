// How much each parameter matters to the result: functional ANOVA.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Mean and standard deviation over the trees of a forest.
struct Spread {
  double mean = 0;
  double deviation = 0;
};

// Places at which a mean effect is looked at: even in the unit range, ends
// included.
inline constexpr size_t kEffectPlaces = 65;
// Effects of two are those of the cells of a grid, for pairs of so many
// parameters at most.
inline constexpr size_t kPairPlaces = 16;
inline constexpr size_t kPairedParameters = 4;

struct ParameterImportance {
  std::string name;
  double share = 0;      // of the variance, by this parameter alone; 0..1
  double deviation = 0;  // of the share, over the trees
  // Where its mean effect is best, of the places near good trials; empty where
  // the results do not tell it from others.
  std::optional<Value> best;
  // The mean over all other parameters, at the horizon: of the objective, the
  // larger the better.
  std::vector<Spread> effect;
};

// The mean effect of two parameters, as ParameterImportance::effect: row after
// row, a row for each cell of `first`.
struct PairEffect {
  std::string first;
  std::string second;
  std::vector<double> values;  // kPairPlaces squared
};

struct Importance {
  std::vector<ParameterImportance> parameters;  // the largest share first
  std::vector<PairEffect> pairs;  // of those with the largest shares
  double together = 0;  // share of the variance that only several explain
  size_t trials = 0;    // with a result
  size_t failures = 0;  // beside these: trials that broke
};

// Hutter, Hoos and Leyton-Brown 2014, "An Efficient Approach for Assessing
// Hyperparameter Importance" (ICML, PMLR 32): the variance over the whole space
// of what a random forest predicts, split into the parameters' main effects and
// the rest; exact for a forest, as its trees are sums over boxes.
//
// As implemented: training time is one more coordinate of the forest (log of
// the step), and effects are those at the horizon, so that trials which were
// left early count for what they are. Values below the worst tenth are raised
// to it: how bad a diverged training is does not matter. Coordinates are
// those of the unit cube; a parameter that a point does not have is at 1/2. A
// trial that broke counts at the horizon as the worst result. The best place is
// named only where at least two of the best third of all trials are within a
// twentieth of the range (of words: have the word), and where the advantage of
// all places so near is larger than its deviation over the trees.
//
// Empty with fewer than 8 trials that have a result, or where all are equal, or
// so far apart that their squares are infinite.
// Deterministic.
std::optional<Importance> parameter_importance(const Study& study);

}  // namespace dtune
