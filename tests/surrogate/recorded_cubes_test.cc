#include "dtune/surrogate/recorded_cubes.h"

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("curves of the same axes keep them") {
  const CubeAxes axes = prior_axes(tiny_curves(2));
  CHECK(axes.log10_lr == std::vector<double>{-4, -3, -2, -1});
  CHECK(axes.log10_l2 == std::vector<double>{-5, -3, -1});
  CHECK(axes.dropout == std::vector<double>{0, 0.5, 1});
}

TEST_CASE("curves of several optimizers lie on axes that span them all") {
  std::vector<RecordedCurves> curves = tiny_curves(1);
  curves[0].context.optimizer = "sgd";
  curves[1].context.optimizer = "adamw";
  const CubeAxes axes = prior_axes(curves);
  CHECK(axes.log10_lr.front() == -4);
  CHECK(axes.log10_lr.back() == doctest::Approx(-1 + 1.0));
  CHECK(axes.log10_l2.front() == doctest::Approx(-5 - 2.0));
  CHECK(axes.log10_l2.back() >= -1);
  CHECK(axes.log10_lr[1] - axes.log10_lr[0] == doctest::Approx(0.5));

  // AdamW's curve at 10^-3 is where SGD's is at 10^-2.
  const RecordedCube sgd = recorded_cube(curves[0], axes);
  curves[0].context.optimizer = "adamw";
  const RecordedCube adamw = recorded_cube(curves[0], axes);
  const size_t row = adamw.values.size() / axes.log10_lr.size();
  const size_t l2 = row / axes.log10_l2.size();
  const size_t same = 2 * row + 3 * l2;
  // Three half decades of rate, and L2 held at the end of what was recorded.
  CHECK(adamw.values[same + 3 * row] ==
        doctest::Approx(
            recorded_cube(curves[0], axes, {-1.5, 0, 0}).values[same]));
  CHECK(adamw.values[same] != sgd.values[same]);
}

TEST_CASE("two trainings a point tell how far a training is from their mean") {
  RecordedCurves curves = tiny_curves(1)[0];
  const CubeAxes axes = prior_axes({curves});
  CHECK(recorded_cube(curves, axes).training_deviation == 0);
  const CubeScale scale = CubeScale::of(curves.values, curves.epochs.size());
  constexpr float kOff = 0.002F;
  curves.repeats.assign(2, curves.values);
  for (size_t i = 0; i < curves.values.size(); ++i) {
    curves.repeats[0][i] -= kOff;
    curves.repeats[1][i] -= 2 * kOff;
  }
  // One of them collapses at a good point: it is one of many.
  const size_t last = axes.time.size() - 1;
  curves.repeats[0][last] = 0.1F;
  const double deviation = recorded_cube(curves, axes).training_deviation;
  // The better half lies within a width of the top, where z is steepest.
  const double steepest = (scale.z(scale.top) - scale.z(scale.top - kOff)) /
                          (0.6745 * std::sqrt(2.0));
  CHECK(deviation < steepest);
  CHECK(deviation > steepest / 15);

  for (float& value : curves.repeats[1]) value -= 2 * kOff;
  CHECK(recorded_cube(curves, axes).training_deviation > 2 * deviation);
}

TEST_CASE("shifted copies have their best points elsewhere") {
  const std::vector<RecordedCurves> curves = tiny_curves(1);
  const CubeAxes axes = prior_axes(curves);
  const std::vector<RecordedCube> cubes = shifted_cubes(curves, axes);
  CHECK(cubes.size() == 9 * curves.size());
  CHECK(cubes[4].values == recorded_cube(curves[0], axes).values);
  CHECK(cubes[1].values == recorded_cube(curves[0], axes, {-0.5, 0, 0}).values);
  CHECK(cubes[1].values != cubes[4].values);
  CHECK(cubes[0].task == curves[0].task);
}
