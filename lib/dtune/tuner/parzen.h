// A density over a search space from points in it: a mixture of one kernel a
// point and one for the user's prior (uniform without one), as in
// Optuna's multivariate TPE (Watanabe 2023, arXiv 2304.11127).
//
// A kernel is a product over the parameters: for numbers a normal distribution
// cut to [0, 1] with deviation 0.2 n^(-1 / (d + 4)), at least
// 1 / min(100, n + 2) ("magic clipping"); for categories of k values the
// point's own with weight 1 + 1 / (n + 1), each other with 1 / (n + 1). Where a
// parameter is inactive in the point the kernel is uniform in it.
#pragma once

#include <span>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/tuner/model_space.h"
#include "dtune/tuner/prior.h"

namespace dtune {

// Keeps references to the space and the prior. Immutable; thread-safe.
class ParzenEstimator {
 public:
  // `weights` are those of the points, against 1 for the prior's kernel.
  // REQUIRES: as many weights as places, none negative.
  ParzenEstimator(const ModelSpace& space, const Prior& prior,
                  std::vector<Place> places, std::vector<double> weights);

  // A point of the unit cube.
  std::vector<double> sample(Rng& rng) const;

  // ln of the density of the parameters that are active there, with
  // respect to the unit cube. O(points * dimensions).
  double log_density(const Place& at) const;

 private:
  double log_kernel(size_t axis, const Place& centre, const Place& at) const;
  double sample_axis(size_t axis, const Place& centre, Rng& rng) const;
  bool active(size_t axis, const Place& place) const;

  const ModelSpace& space_;
  const Prior& prior_;
  std::vector<Place> places_;
  std::vector<double> weights_;  // sum 1 with the last one, the prior's
  double width_ = 1;             // deviation of the kernels of numbers
  double other_ = 1;             // weight of each other category
};

}  // namespace dtune
