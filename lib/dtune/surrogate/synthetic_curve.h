// One curve of the synthetic prior (synthetic.h): steps c and d of FT-PFN's.
#pragma once

#include <array>
#include <cstddef>

namespace dtune {

inline constexpr int kCurveNumbers = 23;  // that make a curve

struct SyntheticCurve {
  static constexpr size_t kBases = 4;  // power, exponential, logarithm, Hill

  double start = 0;  // of the untrained network
  double end = 1;    // where all bases tend to
  std::array<double, kBases> weight{};
  std::array<double, kBases> shape{};
  std::array<double, kBases> saturation{};  // share of the training
  std::array<double, kBases> precision{};   // 1/precision is left there
  std::array<double, kBases> slope{};  // of time behind it; < 0: turns back

  // After share x > 0 of a full training.
  double at(double x) const;
};

// `uniform`: in (0, 1). `help`: share of what is missing to `top` by which the
// end is raised.
SyntheticCurve curve_of(const std::array<double, kCurveNumbers>& uniform,
                        double start, double top, double help);

}  // namespace dtune
