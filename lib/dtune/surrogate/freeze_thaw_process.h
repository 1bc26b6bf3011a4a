// The freeze-thaw Gaussian process over points and training time, with mean
// and covariance learnt from recorded studies.
//
// In a study, a metric y (larger is better) at point u after share t of a full
// training is seen through the monotone map z of warp.h, and modelled as
//   z(y) = s (m(u, t) + f(u, t)) + noise,
//   f ~ GP(0, g^2 phi(u, t) . phi(u', t') k(v, v')
//             + r^2 Matern3/2(|u - u'| / l) Matern3/2(|log t - log t'| / l_t)
//             + constant),
//   noise ~ N(0, (s sigma)^2)
//           + [same training] (s e)^2 Matern3/2(|log t - log t'| / l_t),
// with m and phi of a CubePrior (learnt_prior.h), or m = -1 and phi = 0 without
// one (the plain process); k is a Matern3/2 in the coordinates v that the
// recorded cube does not know (batch size, words), so that what was seen under
// another of these counts less, and in how far a point lies beyond the cube's
// ends, so that the doubt grows there. The second part is what the study itself
// teaches; g lets the learnt part shrink where it misleads. Two trainings of a
// point differ by more than their reports' noise, for as long as they last: e
// is how much, known where the prior was recorded with several trainings a
// point, and left out elsewhere. So f is what a point is worth, and the reports
// of one training, however many, say less about it than those of several.
// Hyper-parameters (l per dimension, l_t, sigma, e, r, s, g and the map's top and
// scale) by maximum a posteriori with lognormal priors; gradients by hand, BFGS.
//
// Freeze-thaw: Swersky et al. 2014, arXiv 1406.3896 (which has an exponential
// kernel in time). Learnt covariance: Wang et al. 2021, arXiv 2109.08215. A
// deviation common to a training is the random effect of mixed models (Laird and
// Ware 1982, doi 10.2307/2529876), correlated in time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtune/surrogate/learnt_prior.h"
#include "dtune/surrogate/warp.h"

namespace dtune {

// Whose report is meant: that of one training of the point, which has a
// positive number, or of one that reported nothing yet, or none: f itself.
inline constexpr int64_t kNewTraining = -1;
inline constexpr int64_t kNoTraining = 0;

// Where the process is observed or asked: a point of the unit cube (all
// parameters of the space), its place in the recorded cube, a time in (0, 1].
struct ProcessInput {
  std::vector<double> unit;
  CubePoint cube;
  double time = 1;
  int64_t training = kNoTraining;
};

struct ProcessObservation {
  ProcessInput input;
  double value = 0;  // the metric, y
};

// Of z, not of y: map thresholds by warp(), means by warp().inverse().
struct Gaussian {
  double mean = 0;
  double variance = 1;
};

// What a dimension of the unit cube is to the process.
struct ProcessDimension {
  bool categorical = false;  // distance 0 or 1
  bool recorded = true;      // one of the recorded cube's axes
};

// No observation is too much: those that repeat others, or nearly, cost a
// little precision (covariance_factor.h).
//
// Not thread-safe. Cost with n observations, d dimensions, k components:
// fit O(iterations n^2 (n + d)), predict O(n (n + k + d)) a query.
class FreezeThawProcess {
 public:
  // `prior` null: the plain process. REQUIRES: dimensions >= 1.
  FreezeThawProcess(std::shared_ptr<const CubePrior> prior,
                    std::vector<ProcessDimension> dimensions);
  // All dimensions are numbers that the cube knows.
  FreezeThawProcess(std::shared_ptr<const CubePrior> prior, size_t dimensions);
  ~FreezeThawProcess();
  FreezeThawProcess(FreezeThawProcess&&) noexcept;
  FreezeThawProcess& operator=(FreezeThawProcess&&) noexcept;

  FreezeThawProcess copy() const;
  // The same with `count` of its observations, evenly spread over their order;
  // all where there are no more. REQUIRES: nothing was fantasized.
  FreezeThawProcess thinned(size_t count) const;

  // Adds m more observations; O(n^2 m). The hyper-parameters stay.
  void observe(const ProcessObservation& observation);
  void observe(std::span<const ProcessObservation> observations);
  // Adds what is expected (the means) at m inputs whose values are still to
  // come; O(n^2 m).
  void fantasize(std::span<const ProcessInput> inputs);
  // In place of all that was observed or fantasized; O(n^3).
  void replace_observations(std::span<const ProcessObservation> observations);
  size_t size() const;

  // The metric is in other units from now on, y' = offset + factor y; `values`
  // are those of all observations in the new units (they may be cut elsewhere).
  // The map moves along, so what is predicted stays. O(n^2). REQUIRES: factor >
  // 0, as many values as observations, nothing fantasized.
  void rescale(double offset, double factor, std::span<const double> values);

  // Fits the hyper-parameters from where they are, to all observations or, of
  // more than 200, to so many that are evenly spread over their order;
  // deterministic. REQUIRES: nothing was fantasized.
  void fit(int iterations);

  // The same an iteration at a time: fit(n) is begin_fit(n), step() until it is
  // false, adopt(). Of the observations as they are at its beginning.
  class Fit {
   public:
    ~Fit();
    Fit(Fit&&) noexcept;
    Fit& operator=(Fit&&) noexcept;
    bool step();  // false: that was the last one

   private:
    friend class FreezeThawProcess;
    struct State;
    explicit Fit(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  // REQUIRES: size() > 0, nothing was fantasized.
  Fit begin_fit(int iterations) const;
  void adopt(const Fit& fit);

  // Of z without the reports' own noise at each input, independently.
  std::vector<Gaussian> predict(std::span<const ProcessInput> queries) const;

  // Of s (m + f) at what was observed or fantasized, in that order; O(n^2).
  std::vector<double> observed_means() const;
  // What each observation was, given those before it: how many deviations off
  // (noise included), and this deviation. O(n^2).
  struct Surprise {
    double deviations = 0;
    double deviation = 1;
  };
  std::vector<Surprise> surprises() const;

  const Warp& warp() const;
  // z of one unit of the prior's (s above).
  double scale() const;
  // Standard deviation of the noise of z that each report has for itself.
  double noise() const;
  // What was added to the covariance's diagonal, as a share of its mean, since
  // the observations are too much alike for doubles; 0: nothing. Whether it had
  // numbers that are not finite, so that the prior alone is left.
  double regularised() const;
  bool given_up() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
