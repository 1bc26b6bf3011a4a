#include "dtune/tuner/curve_smoothing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "dtune/base/error.h"

namespace dtune {
namespace {

// Fewer reports do not tell noise from motion.
constexpr size_t kLeastReports = 5;
// A last report so many deviations off, squared, is no noise of the kind before
// it: a rate that was lowered, a training that has collapsed.
constexpr double kJump = 16;

// Variances in units of the noise's: of the motion of the value and of its slope
// while s grows by 1, and of the first slope.
struct Motion {
  double value;
  double slope;
  double first_slope;
  double log_prior = 0;
};
constexpr Motion rough(double value) { return {value, 0, 0}; }
constexpr Motion smooth(double slope) { return {0, slope, 100 + 10 * slope}; }
// Counts ten times: a few reports of a smooth curve could else be noise as well.
constexpr Motion kNoNoise = {0, 1e12, 1e13, 2.3};
constexpr Motion kMotions[] = {
    rough(0),    rough(.3),   rough(1),    rough(3),    rough(10),
    rough(30),   rough(100),  rough(1e3),  rough(1e4),  rough(1e6),
    rough(1e9),  smooth(0),   smooth(3),   smooth(30),  smooth(300),
    smooth(3e3), smooth(3e4), smooth(1e6), smooth(1e9), kNoNoise};

// Of the innovations, each by its variance.
struct Innovations {
  double square = 0;
  double half_log_determinant = 0;

  void add(double off, double variance) {
    square += off * off / variance;
    half_log_determinant += 0.5 * std::log(variance);
  }
  // A deviation with the prior 1/sigma leaves this; n of them.
  double log_likelihood(double n) const {
    return -half_log_determinant - 0.5 * n * std::log(square);
  }
};

struct Filtered {
  double value = 0;  // the last one without noise
  Innovations all;
  Innovations before;  // all but the last
};

// Of `y` at logarithms of steps `s`.
Filtered filter(std::span<const double> s, std::span<const double> y,
                const Motion& motion) {
  // The state is the value and its slope; with a flat, the first report is the
  // value's mean.
  double value = y.front(), slope = 0;
  double vv = 1, vs = 0, ss = motion.first_slope;
  Filtered f;
  for (size_t i = 1; i < y.size(); ++i) {
    const double ds = s[i] - s[i - 1];
    value += ds * slope;
    vv += ds * (2 * vs + ds * ss) + motion.value * ds +
          motion.slope * ds * ds * ds / 3;
    vs += ds * ss + motion.slope * ds * ds / 2;
    ss += motion.slope * ds;
    const double variance = vv + 1;
    const double off = y[i] - value;
    f.before = f.all;
    f.all.add(off, variance);
    value += vv / variance * off;
    slope += vs / variance * off;
    ss -= vs * vs / variance;
    vs /= variance;
    vv /= variance;
  }
  f.value = value;
  return f;
}

// Means by these likelihoods.
template <size_t n>
double mean_of(const double (&values)[n], const double (&logs)[n]) {
  const double top = *std::max_element(logs, logs + n);
  double sum = 0, mean = 0;
  for (size_t k = 0; k < n; ++k) {
    const double weight = std::exp(logs[k] - top);
    sum += weight;
    mean += weight * values[k];
  }
  return mean / sum;
}

}  // namespace

double smoothed_last(std::span<const CurveReport> curve) {
  DTUNE_CHECK(!curve.empty());
  const CurveReport last = curve.back();
  double unit = 0;
  std::vector<double> s, y;
  for (const CurveReport& report : curve) {
    if (3 * int64_t{report.step} <= last.step) continue;
    s.push_back(std::log(report.step));
    y.push_back(report.value - last.value);
    unit = std::max(unit, std::abs(y.back()));
  }
  if (y.size() < kLeastReports || unit == 0 || !std::isfinite(unit)) {
    return last.value;
  }
  for (double& value : y) value /= unit;
  const bool level = std::all_of(y.begin(), y.end() - 1,
                                 [&](double v) { return v == y.front(); });
  if (level) return last.value;

  const auto n = double(y.size() - 1);
  constexpr size_t kCount = std::size(kMotions);
  double values[kCount], logs[kCount], jumps[kCount], logs_before[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    const Filtered f = filter(s, y, kMotions[k]);
    values[k] = f.value;
    logs[k] = f.all.log_likelihood(n) + kMotions[k].log_prior;
    jumps[k] = (n - 1) * (f.all.square / f.before.square - 1);
    logs_before[k] = f.before.log_likelihood(n - 1);
  }
  if (mean_of(jumps, logs_before) > kJump) return last.value;
  return last.value + unit * mean_of(values, logs);
}

double smoothed_objective(const ObjectiveSpec& objective, const Trial& trial,
                          int step) {
  std::vector<CurveReport> curve;
  for (const StepReport& report : trial.curve) {
    if (report.step > step) break;
    const auto value = objective_value(objective, report);
    if (value) curve.push_back({report.step, *value});
  }
  return smoothed_last(curve);
}

}  // namespace dtune
