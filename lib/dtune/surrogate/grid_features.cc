#include "dtune/surrogate/grid_features.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/curves/interpolation.h"
#include "dtune/curves/recorded_curves.h"

namespace dtune {
namespace {

std::vector<double> evenly(const std::vector<double>& axis, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(axis.front() +
                     (axis.back() - axis.front()) * i / (count - 1));
  }
  return values;
}

double share_of(const std::vector<double>& axis, double value) {
  if (axis.back() <= axis.front()) return 0;
  const double share = (value - axis.front()) / (axis.back() - axis.front());
  return std::clamp(share, 0.0, 1.0);
}

void note_values(const FreezeThawProcess& process, const FeatureGrid& grid,
                 std::span<const ProcessObservation> observations,
                 GridFeatures& study) {
  for (const ProcessObservation& o : observations) {
    const size_t first = grid.frame(o.input.time) * kGridVoxels;
    const double z = process.warp()(o.value);
    for (const FeatureGrid::Share& share : grid.shares(o.input.cube)) {
      const auto weight = static_cast<float>(share.weight);
      study.seen[first + share.voxel] += weight;
      study.value[first + share.voxel] += weight * static_cast<float>(z);
    }
  }
  for (size_t i = 0; i < study.seen.size(); ++i) {
    if (study.seen[i] > 0) study.value[i] /= study.seen[i];
    study.seen[i] = std::min(study.seen[i], 1.0F);
  }
}

double best_of(const FreezeThawProcess& process,
               std::span<const ProcessObservation> observations,
               const std::vector<float>& means) {
  if (observations.empty()) {
    return double{*std::max_element(means.begin(), means.end())};
  }
  double best = observations.front().value;
  for (const ProcessObservation& o : observations) {
    best = std::max(best, o.value);
  }
  return process.warp()(best);
}

}  // namespace

FeatureGrid::FeatureGrid(const CubeAxes& axes, const UnitOf& unit_of)
    : log10_lr_(evenly(axes.log10_lr, kGridLr)),
      log10_l2_(evenly(axes.log10_l2, kGridL2)),
      dropout_(evenly(axes.dropout, kGridDropout)) {
  DTUNE_CHECK(axes.time.size() == size_t{kGridFrames});
  for (const double time : axes.time) {
    log_time_.push_back(std::log(time));
    for (const double lr : log10_lr_) {
      for (const double l2 : log10_l2_) {
        for (const double dropout : dropout_) {
          const CubePoint point = {lr, l2, dropout};
          inputs_.push_back({unit_of(point), point, time});
        }
      }
    }
  }
}

std::vector<FeatureGrid::Share> FeatureGrid::shares(
    const CubePoint& point) const {
  std::vector<Share> result;
  for_each_corner<3>(
      {place_on(log10_lr_, point.log10_lr), place_on(log10_l2_, point.log10_l2),
       place_on(dropout_, point.dropout)},
      {kGridLr, kGridL2, kGridDropout}, [&](size_t voxel, double weight) {
        result.push_back({voxel, weight});
      });
  return result;
}

size_t FeatureGrid::frame(double time) const {
  const double at = std::log(std::max(time, 1e-6));
  size_t nearest = 0;
  for (size_t i = 1; i < log_time_.size(); ++i) {
    const bool nearer =
        std::abs(log_time_[i] - at) < std::abs(log_time_[nearest] - at);
    if (nearer) nearest = i;
  }
  return nearest;
}

UnitOf unit_of_axes(const CubeAxes& axes) {
  return [axes](const CubePoint& point) {
    return std::vector<double>{share_of(axes.log10_lr, point.log10_lr),
                               share_of(axes.log10_l2, point.log10_l2),
                               share_of(axes.dropout, point.dropout)};
  };
}

GridFeatures grid_features(const FreezeThawProcess& process,
                           const FeatureGrid& grid,
                           std::span<const ProcessObservation> observations,
                           std::span<const ProcessInput> pending) {
  const size_t size = grid.inputs().size();
  GridFeatures study;
  study.seen.assign(size, 0.0F);
  study.value.assign(size, 0.0F);
  study.pending.assign(size, 0.0F);
  for (const Gaussian& g : process.predict(grid.inputs())) {
    study.mean.push_back(static_cast<float>(g.mean));
    study.deviation.push_back(static_cast<float>(std::sqrt(g.variance)));
  }
  note_values(process, grid, observations, study);
  for (const ProcessInput& input : pending) {
    const size_t first = grid.frame(input.time) * kGridVoxels;
    for (const FeatureGrid::Share& share : grid.shares(input.cube)) {
      float& at = study.pending[first + share.voxel];
      at = std::min(at + static_cast<float>(share.weight), 1.0F);
    }
  }
  study.best = best_of(process, observations, study.mean);
  study.scale = process.scale();
  return study;
}

}  // namespace dtune
