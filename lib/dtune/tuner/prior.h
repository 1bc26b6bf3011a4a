// A user's prior of where the best values are (`prior:`, `confidence:`), as
// a density over the unit cube: independent coordinates, each
//   f(u) = kDoubt + (1 - kDoubt) g(u),
// where g is, for a number, the normal distribution around the prior with
// standard deviation 0.5, 0.25 or 0.125 (low, medium, high), cut to [0, 1]; for
// a word or a boolean, the prior's cell weighs 2, 4 or 6 times as much as each
// other. The widths are those of NePS (github.com/automl/neps). The constant is
// ours: with it no region is lost to a wrong prior (a defensive mixture:
// Hesterberg 1995, doi 10.1080/00401706.1995.10484303).
#pragma once

#include <span>
#include <vector>

#include "dtune/space/search_space.h"

namespace dtune {

inline constexpr double kDoubt = 0.2;

// Immutable; thread-safe. Copies what it needs of the space.
class Prior {
 public:
  explicit Prior(const SearchSpace& space);

  // No parameter has a prior: the density is 1 everywhere.
  bool empty() const { return given_ == 0; }

  // Maps a uniform point of the cube to one of the density (the quantile
  // function of each coordinate), so that random and low-discrepancy points
  // alike follow the prior.
  void warp(std::span<double> unit) const;

  // Replaces the coordinates that have a prior by it.
  void move_to_mode(std::span<double> unit) const;

  // ln f; 0 where empty(). REQUIRES: unit.size() == dimensions.
  double log_density(std::span<const double> unit) const;

 private:
  struct Marginal {
    bool given = false;
    double mode = 0.5;
    double width = 0;     // numbers: standard deviation
    double cell_low = 0;  // words: the prior's cell
    double cell_high = 1;
    double weight = 1;  // words: the mass of g in the cell
  };
  static Marginal make_marginal(const Parameter& parameter);
  static double cumulative(const Marginal& b, double u);
  static double density(const Marginal& b, double u);
  static double quantile(const Marginal& b, double p);

  std::vector<Marginal> marginals_;
  size_t given_ = 0;
};

}  // namespace dtune
