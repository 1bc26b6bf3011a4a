#include "dtune/surrogate/grid_features.h"

#include <cmath>
#include <numeric>

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

using namespace dtune;

namespace {

FreezeThawProcess tiny_process() {
  const LearntPrior prior = tiny_prior(3);
  return {std::make_shared<const CubePrior>(prior.condition({})), size_t{3}};
}

ProcessInput voxel_input(const FeatureGrid& grid, size_t voxel, size_t frame) {
  return grid.inputs()[frame * kGridVoxels + voxel];
}

float sum(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0F);
}

}  // namespace

TEST_CASE("grid features without observations are what the prior says") {
  const CubeAxes axes = prior_axes(tiny_curves(1));
  const FeatureGrid grid(axes, unit_of_axes(axes));
  const GridFeatures study = grid_features(tiny_process(), grid, {}, {});
  CHECK(study.mean.size() == size_t{kGridFrames} * kGridVoxels);
  CHECK(sum(study.seen) == 0);
  CHECK(sum(study.pending) == 0);
  CHECK(study.best ==
        double{*std::max_element(study.mean.begin(), study.mean.end())});
  CHECK(study.scale > 0);
  for (const float deviation : study.deviation) CHECK(deviation > 0);
}

TEST_CASE("an observation at a voxel is seen there and nowhere else") {
  const CubeAxes axes = prior_axes(tiny_curves(1));
  const FeatureGrid grid(axes, unit_of_axes(axes));
  FreezeThawProcess process = tiny_process();
  const ProcessObservation seen = {voxel_input(grid, 17, 3), 0.7};
  process.observe(seen);
  const std::vector<ProcessObservation> all = {seen};
  const std::vector<ProcessInput> pending = {voxel_input(grid, 20, 4)};
  const GridFeatures study = grid_features(process, grid, all, pending);
  const size_t at = 3 * kGridVoxels + 17;
  CHECK(study.seen[at] == doctest::Approx(1));
  CHECK(sum(study.seen) == doctest::Approx(1));
  CHECK(double{study.value[at]} == doctest::Approx(process.warp()(0.7)));
  CHECK(study.pending[4 * kGridVoxels + 20] == doctest::Approx(1));
  CHECK(sum(study.pending) == doctest::Approx(1));
  CHECK(study.best == doctest::Approx(process.warp()(0.7)));
}

TEST_CASE("an observation between voxels is spread over eight of them") {
  const CubeAxes axes = prior_axes(tiny_curves(1));
  const FeatureGrid grid(axes, unit_of_axes(axes));
  const auto shares = grid.shares({-2.9, -2.5, 0.4});
  CHECK(shares.size() == 8);
  double total = 0;
  for (const auto& share : shares) total += share.weight;
  CHECK(total == doctest::Approx(1));
  // Beyond the ends everything falls to the corner.
  CHECK(grid.shares({-9, -9, -1}).front().voxel == 0);
  CHECK(grid.shares({5, 5, 5}).back().voxel == kGridVoxels - 1);
  CHECK(grid.frame(1) == kGridFrames - 1);
  CHECK(grid.frame(1e-9) == 0);
}

TEST_CASE("points outside of a study's ranges are clamped to its cube") {
  CubeAxes axes = prior_axes(tiny_curves(1));
  const UnitOf unit_of = unit_of_axes(axes);
  CHECK(unit_of({-9, -3, 2}) == std::vector<double>{0, 0.5, 1});
}
