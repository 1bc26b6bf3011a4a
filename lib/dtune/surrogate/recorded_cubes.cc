#include "dtune/surrogate/recorded_cubes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr int kEpochs[] = {1, 2, 4, 7, 13, 22, 34, 51};

}  // namespace

CubeAxes prior_axes(const std::vector<RecordedCurves>& curves) {
  if (curves.empty()) {
    throw Error(ErrorKind::data,
                "no recorded curves to learn from (record some with `dtune "
                "record`)");
  }
  const RecordedCurves& first = curves.front();
  if (first.log10_lr.size() < 2 || first.log10_l2.size() < 2 ||
      first.dropout.size() < 2) {
    throw Error(ErrorKind::data,
                fmt::format("curves of '{}': a prior needs two values or more "
                            "of learning rate, L2 and dropout",
                            first.task));
  }
  CubeAxes axes = {first.log10_lr, first.log10_l2, first.dropout, {}};
  for (const int epoch : kEpochs) axes.time.push_back(epoch / 51.0);
  return axes;
}

RecordedCube recorded_cube(const RecordedCurves& curves, const CubeAxes& axes) {
  const CubeContext& known = curves.context;
  RecordedCube cube;
  cube.task = curves.task;
  cube.context = {known.batch_size.value_or(64), known.width.value_or(256),
                  known.momentum.value_or(0.9), known.depth.value_or(3)};
  cube.values.reserve(axes.size());
  for (const double lr : axes.log10_lr) {
    for (const double l2 : axes.log10_l2) {
      for (const double dropout : axes.dropout) {
        for (const double time : axes.time) {
          const int step =
              std::max(1, static_cast<int>(std::lround(time * curves.steps())));
          cube.values.push_back(
              static_cast<float>(curves.value({lr, l2, dropout}, step)));
        }
      }
    }
  }
  return cube;
}

}  // namespace dtune
