#include "dtune/surrogate/recorded_cubes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/order_statistic.h"

namespace dtune {
namespace {

constexpr int kEpochs[] = {1, 2, 4, 7, 13, 22, 34, 51};

// Between the values of axes that are not the same in all curves, in decades
// and, of dropout, in shares.
constexpr double kRateStep = 0.5;
constexpr double kL2Step = 1;
constexpr double kDropoutStep = 0.3;

// The axis that the curves share; else one that spans what they span.
class AxisUnion {
 public:
  void add(const std::vector<double>& axis, double shift) {
    std::vector<double> moved = axis;
    for (double& value : moved) value += shift;
    if (first_.empty()) first_ = moved;
    shared_ = shared_ && moved == first_;
    low_ = std::min(low_, moved.front());
    high_ = std::max(high_, moved.back());
  }

  std::vector<double> values(double step) const {
    if (shared_) return first_;
    const auto cells =
        static_cast<int>(std::ceil((high_ - low_) / step - 1e-6));
    std::vector<double> result;
    for (int i = 0; i <= cells; ++i) result.push_back(low_ + i * step);
    return result;
  }

 private:
  std::vector<double> first_;
  bool shared_ = true;
  double low_ = HUGE_VAL;
  double high_ = -HUGE_VAL;
};

void check_axes(const RecordedCurves& curves) {
  if (curves.log10_lr.size() < 2 || curves.log10_l2.size() < 2 ||
      curves.dropout.size() < 2) {
    throw Error(ErrorKind::data,
                fmt::format("curves of '{}': a prior needs two values or more "
                            "of learning rate, L2 and dropout",
                            curves.task));
  }
}

// 0 with fewer than two trainings a point.
double training_deviation(const RecordedCurves& curves) {
  if (curves.repeats.size() < 2) return 0;
  constexpr double kDeviationsInMedian = 0.6745;  // of a normal distribution
  const size_t times = curves.epochs.size();
  const CubeScale scale = CubeScale::of(curves.values, times);
  const double median = curves.median_final();
  std::vector<double> differences;
  for (size_t at = times - 1; at < curves.values.size(); at += times) {
    if (double{curves.values[at]} < median) continue;
    for (size_t i = 1; i < curves.repeats.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        differences.push_back(std::abs(double{scale.z(curves.repeats[i][at]) -
                                              scale.z(curves.repeats[j][at])}));
      }
    }
  }
  return upper_median(std::move(differences)) /
         (kDeviationsInMedian * std::sqrt(2.0));
}

}  // namespace

std::vector<int> ladder_steps(int horizon) {
  std::vector<int> steps;
  for (const int epoch : kEpochs) {
    const int step =
        std::max(1, static_cast<int>(std::lround(epoch / 51.0 * horizon)));
    if (steps.empty() || step > steps.back()) steps.push_back(step);
  }
  return steps;
}

CubeAxes prior_axes(const std::vector<RecordedCurves>& curves) {
  if (curves.empty()) {
    throw Error(ErrorKind::data,
                "no recorded curves to learn from (record some with `dtune "
                "record`)");
  }
  AxisUnion log10_lr;
  AxisUnion log10_l2;
  AxisUnion dropout;
  for (const RecordedCurves& one : curves) {
    check_axes(one);
    const CubePoint shift = as_sgd({0, 0, 0}, one.context.optimizer);
    log10_lr.add(one.log10_lr, shift.log10_lr);
    log10_l2.add(one.log10_l2, shift.log10_l2);
    dropout.add(one.dropout, 0);
  }
  CubeAxes axes = {log10_lr.values(kRateStep),
                   log10_l2.values(kL2Step),
                   dropout.values(kDropoutStep),
                   {}};
  for (const int epoch : kEpochs) axes.time.push_back(epoch / 51.0);
  return axes;
}

RecordedCube recorded_cube(const RecordedCurves& curves, const CubeAxes& axes,
                           const CubePoint& shift) {
  const CubeContext& known = curves.context;
  RecordedCube cube;
  cube.task = curves.task;
  cube.context = {known.batch_size.value_or(64), known.width.value_or(256),
                  known.momentum.value_or(0.9), known.depth.value_or(3)};
  cube.training_deviation = training_deviation(curves);
  cube.values.reserve(axes.size());
  for (const double lr : axes.log10_lr) {
    for (const double l2 : axes.log10_l2) {
      for (const double dropout : axes.dropout) {
        for (const double time : axes.time) {
          const int step =
              std::max(1, static_cast<int>(std::lround(time * curves.steps())));
          cube.values.push_back(static_cast<float>(curves.value(
              from_sgd({lr - shift.log10_lr, l2 - shift.log10_l2, dropout},
                       known.optimizer),
              step)));
        }
      }
    }
  }
  return cube;
}

std::vector<RecordedCube> shifted_cubes(
    const std::vector<RecordedCurves>& curves, const CubeAxes& axes) {
  std::vector<RecordedCube> cubes;
  for (const RecordedCurves& one : curves) {
    for (const double lr : {-kRateStep, 0.0, kRateStep}) {
      for (const double l2 : {-kL2Step, 0.0, kL2Step}) {
        cubes.push_back(recorded_cube(one, axes, {lr, l2, 0}));
      }
    }
  }
  return cubes;
}

}  // namespace dtune
