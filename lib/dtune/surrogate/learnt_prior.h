// What recorded studies of other data sets teach: how the metric usually runs
// over (learning rate, L2, dropout, training time), and how it varies.
//
// Every recorded cube is one sample. Normalised as
//   z of x = clip((y - max y) / (max y - median of final y + .02), -4, 0)
// (warp.h; CubeScale),
// the samples are written as a mean plus the leading principal components
// (Wang et al. 2021, "Pre-trained Gaussian processes for Bayesian
// optimization", arXiv 2109.08215, do the same with a network). A study uses
//   mean m(u, t) and covariance phi(u, t) . phi(u', t')
// of the samples, of which each task has the same weight in all. Among the
// samples of one task, those whose context (batch size, width, momentum, depth)
// is nearer to the study's weigh more: an addition to the source. It has an
// effect where tasks were recorded under several contexts, as LCBench's were; all
// samples of a task with one context, as of each CNN's cube, weigh the same,
// whatever the study's context is. Interpolated linearly in log10 lr, log10 L2,
// dropout and log t.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/curves/cube.h"

namespace dtune {

class SafetensorsFile;

inline constexpr int kContextSize = 4;

// Recorded curves of one data set under one context.
struct RecordedCube {
  std::string task;                          // whose data set
  std::array<double, kContextSize> context;  // as CubeContext, all known
  std::vector<float> values;  // [lr][l2][dropout][time], larger is better
  // How far one training of a point is from the mean of all, at the end, as a
  // standard deviation of z (below); 0: not known.
  double training_deviation = 0;
};

// How a cube's values become z.
struct CubeScale {
  float top = 0;
  float width = 1;

  // Of values laid out as RecordedCube's, `times` a point.
  static CubeScale of(const std::vector<float>& values, size_t times);
  float z(float y) const;
};

// The axes that all cubes of a prior share.
struct CubeAxes {
  std::vector<double> log10_lr;
  std::vector<double> log10_l2;
  std::vector<double> dropout;
  std::vector<double> time;  // shares of a full training, ascending, last is 1

  size_t voxels() const {
    return log10_lr.size() * log10_l2.size() * dropout.size();
  }
  size_t size() const { return voxels() * time.size(); }
  // The grid point with this number of [lr][l2][dropout].
  CubePoint point(size_t voxel) const {
    const size_t row = voxel / dropout.size();
    return {log10_lr[row / log10_l2.size()], log10_l2[row % log10_l2.size()],
            dropout[voxel % dropout.size()]};
  }

  // For for_each_corner() over [lr][l2][dropout][time]. Training time is
  // interpolated in its logarithm: curves are straighter there.
  std::array<AxisPlace, 4> places(const CubePoint& point, double share) const;
  std::array<size_t, 4> sizes() const {
    return {log10_lr.size(), log10_l2.size(), dropout.size(), time.size()};
  }
};

// A prior as one study uses it. Immutable; thread-safe.
class CubePrior {
 public:
  CubePrior(CubeAxes axes, size_t components, std::vector<float> mean,
            std::vector<float> loadings, double training_deviation = 0);

  const CubeAxes& axes() const { return axes_; }
  size_t components() const { return components_; }
  // RecordedCube's, the median of all that know it; 0: none does.
  double training_deviation() const { return training_deviation_; }

  // Mean and loadings at a point and a share of training time in (0, 1].
  // REQUIRES: phi.size() == components(). Cost: 16 times components().
  double evaluate(const CubePoint& point, double time,
                  std::span<double> phi) const;

  // The grid point with the largest mean at the end of training, smoothed over
  // neighbouring points: of few recorded studies the largest itself is often a
  // corner by chance (regret of the first point on eight recorded CNNs, by a
  // prior of other images, .30 without and .26 with smoothing).
  CubePoint best_point() const;

 private:
  CubeAxes axes_;
  size_t components_;
  std::vector<float> mean_;      // [size]
  std::vector<float> loadings_;  // [size][components]
  double training_deviation_;
};

// What is shipped: the components and every sample's coefficients, so that a
// study can weight the samples. Immutable; thread-safe.
class LearntPrior {
 public:
  // REQUIRES: all cubes have axes.size() values. Throws Error(data) for fewer
  // than two cubes. `components` at most the number of cubes. A second or two
  // for 800 cubes of 8,000 values.
  static LearntPrior learn(const CubeAxes& axes,
                           const std::vector<RecordedCube>& cubes,
                           size_t components);

  // Safetensors with a checksum of the numbers; the basis as halves, so what is
  // loaded differs from what was saved by about a thousandth of each number.
  // Throws Error(data) naming the file: missing, damaged or foreign.
  static LearntPrior load(const std::filesystem::path& path);
  // Of a file in memory, aligned to 8 bytes; `name` is what errors call it.
  static LearntPrior load(std::span<const std::byte> bytes,
                          const std::string& name);
  // `provenance`: the command and data that made it, for people. Atomic.
  void save(const std::filesystem::path& path,
            const std::string& provenance) const;

  // For a study with this context; samples of the tasks named are left out.
  // Each task has the same weight in all; within a task a sample's weight is
  // exp(-d^2 / (2 h^2)) + 1e-4, with d the distance of the known numbers of the
  // contexts in units of their spread and h = 1.2.
  CubePrior condition(const CubeContext& context,
                      std::span<const std::string> leave_out = {}) const;

  // Up to `count` grid points to open a study with: the one with the least mean
  // regret at the end of training over the samples, weighted as above, then each
  // time the one that lowers the mean of the least regret of all chosen the most
  // (a greedy portfolio: Feurer et al. 2022, "Auto-sklearn 2.0", arXiv
  // 2007.04074). Regret is that of x above; what is worse than the median counts
  // as the median. Some 30 ms. Throws as condition().
  std::vector<CubePoint> opening(const CubeContext& context,
                                 std::span<const std::string> leave_out,
                                 size_t count) const;

  const std::vector<std::string>& tasks() const { return tasks_; }
  const CubeAxes& axes() const { return axes_; }

 private:
  static LearntPrior read(const SafetensorsFile& file);
  // Of each sample; they sum to 1.
  std::vector<float> weights(const CubeContext& context,
                             std::span<const std::string> leave_out) const;

  CubeAxes axes_;
  size_t components_ = 0;
  std::vector<float> mean_;          // [size]
  std::vector<float> basis_;         // [components][size], orthonormal
  std::vector<float> coefficients_;  // [samples][components]
  std::vector<float> contexts_;      // [samples][kContextSize]
  std::vector<float> deviations_;    // [samples], of trainings; 0: not known
  std::vector<std::string> tasks_;   // [samples]
};

}  // namespace dtune
