#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {
namespace {

// Training time is interpolated in its logarithm: curves are straighter there.
AxisPlace place_in_time(const std::vector<double>& axis, double time) {
  AxisPlace place = place_on(axis, time);
  if (place.weight > 0 && place.weight < 1) {
    const double low = std::log(axis[place.index]);
    const double high = std::log(axis[place.index + 1]);
    place.weight = (std::log(time) - low) / (high - low);
  }
  return place;
}

}  // namespace

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
  const AxisPlace places[] = {place_on(axes_.log10_lr, point.log10_lr),
                              place_on(axes_.log10_l2, point.log10_l2),
                              place_on(axes_.dropout, point.dropout),
                              place_in_time(axes_.time, time)};
  const size_t sizes[] = {axes_.log10_lr.size(), axes_.log10_l2.size(),
                          axes_.dropout.size(), axes_.time.size()};
  std::fill(phi.begin(), phi.end(), 0.0);
  double mean = 0;
  for (unsigned corner = 0; corner < 16; ++corner) {
    double weight = 1;
    size_t at = 0;
    for (unsigned axis = 0; axis < 4; ++axis) {
      const bool upper = ((corner >> axis) & 1U) != 0;
      weight *= upper ? places[axis].weight : 1 - places[axis].weight;
      at = at * sizes[axis] + places[axis].index + (upper ? 1 : 0);
    }
    if (weight == 0) continue;
    mean += weight * double{mean_[at]};
    const float* row = &loadings_[at * components_];
    for (size_t k = 0; k < components_; ++k) phi[k] += weight * double{row[k]};
  }
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
