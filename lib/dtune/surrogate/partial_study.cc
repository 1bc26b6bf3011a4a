#include "dtune/surrogate/partial_study.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/curves/interpolation.h"
#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/grid_features.h"
#include "dtune/surrogate/recorded_cubes.h"

namespace dtune {
namespace {

// How a study goes about: chances of a new point where another could go on,
// of a new point near the best ones, and how greedy the choice of curves is.
struct Policy {
  double fresh;    // chance of a new point
  double near;     // of it, near the best
  double greed;    // of going on with the best instead of any curve
  double patient;  // of going on with the last one
};

constexpr Policy kPolicies[] = {
    {0.05, 0.2, 0.0, 1.0},  // few long curves
    {0.80, 0.2, 0.3, 0.0},  // many short ones
    {0.35, 0.6, 0.9, 0.2},  // greedy
    {0.50, 0.7, 0.9, 0.0},  // greedier, wider
    {0.40, 0.0, 0.0, 0.0},  // anything
};

struct OpenCurve {
  CubePoint point;
  size_t frames = 0;
  double last = 0;
  double luck = 0;  // by how much all reports of this training are off
};

// When the trials of a study are looked at: at the frames, or, half of the time,
// at the whole steps nearest to them of trainings of 4 to 51 steps.
std::vector<double> draw_times(const std::vector<double>& frames, Rng& rng) {
  if (rng.uniform() < 0.5) return frames;
  const auto horizon =
      static_cast<int>(std::exp(rng.uniform(std::log(4.0), std::log(52.0))));
  std::vector<double> times;
  for (const int step : ladder_steps(horizon)) {
    times.push_back(step / static_cast<double>(horizon));
  }
  return times;
}

// Standard deviations of the noise: of a training, of each of its reports.
struct Noise {
  double common;
  double own;
};

Noise draw_noise(double deviation, Rng& rng) {
  const double share = rng.uniform();  // of the variance
  return {deviation * std::sqrt(share), deviation * std::sqrt(1 - share)};
}

class StudyMaker {
 public:
  StudyMaker(const StudyCube& cube, const CubePoint& first, double noise,
             Rng& rng)
      : cube_(cube),
        unit_of_(unit_of_axes(cube.axes())),
        first_(first),
        times_(draw_times(cube.axes().time, rng)),
        noise_(draw_noise(noise, rng)),
        policy_(kPolicies[rng.below(std::size(kPolicies))]),
        stop_(rng.uniform() < 0.6 ? times_.size()
                                  : 2 + rng.below(times_.size() - 1)),
        rng_(rng) {}

  std::vector<ProcessObservation> make(size_t count) {
    std::vector<ProcessObservation> study;
    for (size_t i = 0; i < count; ++i) study.push_back(observe());
    return study;
  }

 private:
  size_t frames() const { return std::min(stop_, times_.size()); }

  ProcessObservation observe() {
    OpenCurve& curve = pick();
    const ProcessInput at = {unit_of_(curve.point), curve.point,
                             times_[curve.frames++],
                             1 + (&curve - curves_.data())};
    curve.last =
        cube_.value(at.cube, at.time) + curve.luck + noise_.own * rng_.normal();
    return {at, curve.last};
  }

  OpenCurve& pick();
  OpenCurve& open(const CubePoint& point) {
    curves_.push_back({point, 0, 0, noise_.common * rng_.normal()});
    return curves_.back();
  }
  const OpenCurve* best() const;
  CubePoint anywhere();
  CubePoint near(const CubePoint& centre);
  CubePoint new_point();

  const StudyCube& cube_;
  UnitOf unit_of_;
  CubePoint first_;
  std::vector<double> times_;
  Noise noise_;
  Policy policy_;
  size_t stop_;
  Rng& rng_;
  std::vector<OpenCurve> curves_;
};

double between(const std::vector<double>& axis, double share) {
  return axis.front() +
         (axis.back() - axis.front()) * std::clamp(share, 0.0, 1.0);
}

CubePoint StudyMaker::anywhere() {
  const CubeAxes& axes = cube_.axes();
  return {between(axes.log10_lr, rng_.uniform()),
          between(axes.log10_l2, rng_.uniform()),
          between(axes.dropout, rng_.uniform())};
}

CubePoint StudyMaker::near(const CubePoint& centre) {
  const CubeAxes& axes = cube_.axes();
  std::vector<double> unit = unit_of_(centre);
  const double width = std::exp(rng_.uniform(std::log(0.02), std::log(0.3)));
  for (double& u : unit) u += width * rng_.normal();
  return {between(axes.log10_lr, unit[0]), between(axes.log10_l2, unit[1]),
          between(axes.dropout, unit[2])};
}

const OpenCurve* StudyMaker::best() const {
  const OpenCurve* found = nullptr;
  for (const OpenCurve& curve : curves_) {
    const bool better =
        curve.frames > 0 && (found == nullptr || curve.last > found->last);
    if (better) found = &curve;
  }
  return found;
}

CubePoint StudyMaker::new_point() {
  if (curves_.empty()) {
    return rng_.uniform() < 0.7 ? first_ : anywhere();
  }
  const OpenCurve* top = best();
  const bool close = top != nullptr && rng_.uniform() < policy_.near;
  if (close) return near(top->point);
  return rng_.uniform() < 0.15 ? near(first_) : anywhere();
}

OpenCurve& StudyMaker::pick() {
  std::vector<size_t> paused;
  for (size_t i = 0; i < curves_.size(); ++i) {
    if (curves_[i].frames < frames()) paused.push_back(i);
  }
  if (paused.empty()) return open(new_point());
  const bool last_open = paused.back() + 1 == curves_.size();
  if (last_open && rng_.uniform() < policy_.patient) return curves_.back();
  if (rng_.uniform() < policy_.fresh) return open(new_point());
  size_t chosen = paused[rng_.below(paused.size())];
  if (rng_.uniform() < policy_.greed) {
    for (const size_t i : paused) {
      if (curves_[i].last > curves_[chosen].last) chosen = i;
    }
  }
  return curves_[chosen];
}

std::vector<double> positions(const std::vector<double>& axis, double bend,
                              bool reversed) {
  std::vector<double> result;
  for (const double value : axis) {
    const double share = (value - axis.front()) / (axis.back() - axis.front());
    const double bent = std::pow(share, bend);
    result.push_back(between(axis, reversed ? 1 - bent : bent));
  }
  return result;
}

}  // namespace

StudyCube::StudyCube(CubeAxes axes, std::vector<float> values)
    : axes_(std::move(axes)), values_(std::move(values)) {
  DTUNE_CHECK(values_.size() == axes_.size());
}

double StudyCube::value(const CubePoint& point, double time) const {
  double sum = 0;
  for_each_corner(
      axes_.places(point, time), axes_.sizes(),
      [&](size_t at, double weight) { sum += weight * double{values_[at]}; });
  return sum;
}

StudyCube StudyCube::bent(int axis, double bend, bool reversed) const {
  DTUNE_CHECK(axis >= 0 && axis < 3 && bend > 0);
  const auto along = [&](int which, const std::vector<double>& values) {
    return which == axis ? positions(values, bend, reversed) : values;
  };
  const std::vector<double> lrs = along(0, axes_.log10_lr);
  const std::vector<double> l2s = along(1, axes_.log10_l2);
  const std::vector<double> dropouts = along(2, axes_.dropout);
  std::vector<float> values;
  values.reserve(values_.size());
  for (const double lr : lrs) {
    for (const double l2 : l2s) {
      for (const double dropout : dropouts) {
        for (const double time : axes_.time) {
          values.push_back(static_cast<float>(value({lr, l2, dropout}, time)));
        }
      }
    }
  }
  return {axes_, std::move(values)};
}

StudyCube StudyCube::scaled(double a, double b) const {
  std::vector<float> values = values_;
  for (float& value : values) {
    value = static_cast<float>(a + b * double{value});
  }
  return {axes_, std::move(values)};
}

std::vector<ProcessObservation> partial_study(const StudyCube& cube,
                                              const CubePoint& first,
                                              size_t count, double noise,
                                              Rng& rng) {
  return StudyMaker(cube, first, noise, rng).make(count);
}

std::vector<ProcessInput> pending_after(
    std::span<const ProcessObservation> observations, size_t done,
    size_t slots) {
  std::vector<ProcessInput> pending;
  for (size_t i = done; i < observations.size(); ++i) {
    if (pending.size() >= slots) break;
    const ProcessInput& next = observations[i].input;
    const bool known = std::any_of(
        pending.begin(), pending.end(),
        [&](const ProcessInput& other) { return other.unit == next.unit; });
    if (!known) pending.push_back(next);
  }
  return pending;
}

}  // namespace dtune
