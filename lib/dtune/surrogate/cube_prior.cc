#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/curves/interpolation.h"
#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {
namespace {

// Each value with its neighbours on one axis, by weights of 1, 2 and 1; beyond
// an end is the value there.
std::vector<double> smoothed(const std::vector<double>& values, size_t stride,
                             size_t size) {
  std::vector<double> result;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = i / stride % size;
    const double before = values[place > 0 ? i - stride : i];
    const double after = values[place + 1 < size ? i + stride : i];
    result.push_back((before + 2 * values[i] + after) / 4);
  }
  return result;
}

}  // namespace

std::array<AxisPlace, 4> CubeAxes::places(const CubePoint& point,
                                          double share) const {
  AxisPlace in_time = place_on(time, share);
  if (in_time.weight > 0 && in_time.weight < 1) {
    const double low = std::log(time[in_time.index]);
    const double high = std::log(time[in_time.index + 1]);
    in_time.weight = (std::log(share) - low) / (high - low);
  }
  return {place_on(log10_lr, point.log10_lr),
          place_on(log10_l2, point.log10_l2), place_on(dropout, point.dropout),
          in_time};
}

CubePrior::CubePrior(CubeAxes axes, size_t components, std::vector<float> mean,
                     std::vector<float> loadings, double training_deviation)
    : axes_(std::move(axes)),
      components_(components),
      mean_(std::move(mean)),
      loadings_(std::move(loadings)),
      training_deviation_(training_deviation) {
  DTUNE_CHECK(mean_.size() == axes_.size());
  DTUNE_CHECK(loadings_.size() == axes_.size() * components_);
}

double CubePrior::evaluate(const CubePoint& point, double time,
                           std::span<double> phi) const {
  DTUNE_CHECK(phi.size() == components_);
  std::fill(phi.begin(), phi.end(), 0.0);
  double mean = 0;
  for_each_corner(axes_.places(point, time), axes_.sizes(),
                  [&](size_t at, double weight) {
                    mean += weight * double{mean_[at]};
                    const float* row = &loadings_[at * components_];
                    for (size_t k = 0; k < components_; ++k) {
                      phi[k] += weight * double{row[k]};
                    }
                  });
  return mean;
}

CubePoint CubePrior::best_point() const {
  const size_t frames = axes_.time.size();
  const size_t n1 = axes_.log10_l2.size();
  const size_t n2 = axes_.dropout.size();
  DTUNE_CHECK(!axes_.log10_lr.empty() && n1 > 0 && n2 > 0);
  std::vector<double> ends;
  for (size_t at = frames - 1; at < mean_.size(); at += frames) {
    ends.push_back(double{mean_[at]});
  }
  ends = smoothed(ends, n1 * n2, axes_.log10_lr.size());
  ends = smoothed(ends, n2, n1);
  ends = smoothed(ends, 1, n2);
  const auto best = static_cast<size_t>(
      std::max_element(ends.begin(), ends.end()) - ends.begin());
  return axes_.point(best);
}

}  // namespace dtune
