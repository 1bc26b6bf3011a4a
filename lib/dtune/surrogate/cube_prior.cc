#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/curves/interpolation.h"
#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {

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
                     std::vector<float> loadings)
    : axes_(std::move(axes)),
      components_(components),
      mean_(std::move(mean)),
      loadings_(std::move(loadings)) {
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
  size_t best = 0;
  for (size_t voxel = 1; voxel < axes_.voxels(); ++voxel) {
    const size_t at = voxel * frames + frames - 1;
    if (mean_[at] > mean_[best * frames + frames - 1]) best = voxel;
  }
  const size_t n2 = axes_.dropout.size();
  const size_t n1 = axes_.log10_l2.size();
  return {axes_.log10_lr[best / (n1 * n2)], axes_.log10_l2[best / n2 % n1],
          axes_.dropout[best % n2]};
}

}  // namespace dtune
