// The samplers. Each throws Error(config) where the
// recipe's options or space do not fit.
#pragma once

#include <memory>

#include "dtune/study/tuner.h"

namespace dtune {

// Points of tuner/sequence.h, warped to the user's prior (tuner/prior.h); with
// a prior, the first proposal is the prior itself, coordinates without one
// coming from the sequence.
std::unique_ptr<Sampler> make_random_sampler(const Recipe& recipe);
std::unique_ptr<Sampler> make_sobol_sampler(const Recipe& recipe);
std::unique_ptr<Sampler> make_halton_sampler(const Recipe& recipe);

// Every combination of the values of discrete parameters and of `points`
// values of reals (ends included; evenly spaced, under `log` in the
// logarithm). `points` also thins integers and quantised reals that have more
// values. `order: shuffled` (by the seed) or `ordered` (the first parameter
// changes fastest). A combination counts as covered when a trial of the study
// has it: a resumed or widened study goes on where points are missing. Priors
// are not looked at.
std::unique_ptr<Sampler> make_grid_sampler(const Recipe& recipe);

// Bayesian optimisation: the points of a Sobol sampler for the first `startup`
// (5) trials, then those that promise the largest logarithm of the expected
// improvement under a Gaussian process of the trials' best values
// (surrogate/gaussian_process.h). Pending trials count as observed where the
// process expects them. Trials that stopped early are observations of a process
// that has the length of the training as one more dimension. Broken ones count
// as the worst value seen. Priors shift the choice (piBO). Unlike plain-gp
// (surrogate_tuner.h) it models results, not curves: it cannot say how a trial
// would go on, so schedulers get no prediction from it.
std::unique_ptr<Sampler> make_gp_sampler(const Recipe& recipe);

// Tree-structured Parzen estimators (Bergstra et al. 2011, NeurIPS), all
// parameters at once, with the settings that Optuna has by default, as Watanabe
// 2023 (arXiv 2304.11127) explains them: after `startup` (10) trials, of
// `candidates` (24) points drawn from the density of the best trials (the share
// `gamma`, 0.1, at most 25) the one whose density among them is largest
// against that of the others. Trials that stopped early rank behind complete
// ones, by length, then by value. Pending trials and broken ones are among the
// others. Differs from Optuna in that start-up points are Sobol's and that
// priors shift the choice; from BOHB (Falkner et al. 2018, arXiv 1807.01774) in
// that trials of all rungs are looked at, not those of the highest rung with
// enough of them.
std::unique_ptr<Sampler> make_tpe_sampler(const Recipe& recipe);

// The points that the study's recipe lists and no trial has, in their order;
// then what `rest` proposes. REQUIRES: rest is not null.
std::unique_ptr<Sampler> make_listed_sampler(std::unique_ptr<Sampler> rest);

}  // namespace dtune
