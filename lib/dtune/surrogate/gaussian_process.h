// The standard Gaussian process of Bayesian optimisation: constant mean,
// Matern-5/2 with a length scale a dimension, normal noise,
//   y = m + s (f(x) + e),  f ~ GP(0, Matern5/2(r)),  e ~ N(0, noise),
//   r^2 = sum over numbers ((x_i - x'_i) / l_i)^2
//       + sum over categories [x_i != x'_i] / l_i^2,
// with y standardised (s: its standard deviation), m profiled out, and l, noise
// by maximum a posteriori. Priors are those of BoTorch 0.12 and later:
//   l ~ LogNormal(sqrt 2 + log(d) / 2, sqrt 3) (Hvarfner et al. 2024,
//   arXiv 2402.02229), noise ~ LogNormal(-4, 1).
#pragma once

#include <vector>

#include <Eigen/Core>

#include "dtune/surrogate/covariance_factor.h"

namespace dtune {

// Mean and deviation of the noise-free function at a point, and their
// derivatives by its coordinates (0 for categories).
struct GpPrediction {
  double mean = 0;
  double deviation = 1;
  Eigen::VectorXd mean_slope;
  Eigen::VectorXd deviation_slope;
};

// Deterministic: what it says depends on the data alone. Not thread-safe while
// it is fitted. Cost with n observations in d dimensions: fit O(n^3) an
// iteration (about a hundred), predict O(n^2 + n d).
class GaussianProcess {
 public:
  // `categories[i]`: coordinate i is a category, compared by equality alone.
  explicit GaussianProcess(std::vector<bool> categories);

  // Columns of `x` are points, numbers in [0, 1]. REQUIRES: at least one
  // column, as many values as columns, all finite and below 1e150.
  void fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y);

  // Takes the points as observed where the mean is now ("kriging believer",
  // Ginsbourger et al. 2010, doi 10.1007/978-3-642-10701-6_6): the mean stays,
  // the deviation near them shrinks. REQUIRES: fit() was called.
  void fantasize(const Eigen::MatrixXd& points);

  // In the units of y. Derivatives are filled only if `slopes`.
  GpPrediction predict(const Eigen::VectorXd& x, bool slopes = false) const;

  // Of the fit; length scales in units of the coordinates, the noise as a
  // standard deviation in the units of y.
  Eigen::VectorXd length_scales() const;
  double noise() const;

 private:
  Eigen::Index dimensions() const { return Eigen::Index(categories_.size()); }
  double squared_gap(Eigen::Index axis, double a, double b) const;
  Eigen::MatrixXd covariance(const Eigen::MatrixXd& x,
                             const Eigen::VectorXd& log_hyper) const;
  double objective(const Eigen::MatrixXd& x, const Eigen::VectorXd& y,
                   const Eigen::VectorXd& log_hyper,
                   Eigen::VectorXd* gradient) const;
  void add_likelihood_gradient(const Eigen::MatrixXd& x,
                               const Eigen::VectorXd& log_hyper,
                               const Eigen::MatrixXd& w,
                               Eigen::VectorXd& gradient) const;
  Eigen::VectorXd fit_from(const Eigen::MatrixXd& x, const Eigen::VectorXd& y,
                           const Eigen::VectorXd& start, int iterations) const;
  void choose_hyper();
  void factorise();

  std::vector<bool> categories_;
  Eigen::VectorXd log_hyper_;  // log l of each dimension, log noise variance
  Eigen::MatrixXd x_;
  Eigen::VectorXd y_;  // standardised
  double offset_ = 0;  // of the standardisation
  double scale_ = 1;
  double mean_ = 0;  // the constant mean, standardised
  CovarianceFactor factor_;
  Eigen::VectorXd weights_;  // covariance^-1 (y - mean)
};

}  // namespace dtune
