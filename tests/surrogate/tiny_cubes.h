// Recorded curves on a grid of a few points, for tests of what is learnt.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "dtune/surrogate/recorded_cubes.h"

namespace dtune {

// The best learning rate moves with the data set's number; each task has two
// settings.
inline std::vector<RecordedCurves> tiny_curves(int tasks) {
  std::vector<RecordedCurves> all;
  for (int i = 0; i < tasks * 2; ++i) {
    RecordedCurves curves;
    curves.task = "task" + std::to_string(i / 2);
    curves.context = {i % 2 == 0 ? 32.0 : 256.0, 128, 0.9, 2};
    curves.log10_lr = {-4, -3, -2, -1};
    curves.log10_l2 = {-5, -3, -1};
    curves.dropout = {0, 0.5, 1};
    curves.epochs = {1, 2, 4, 7, 13, 22, 34, 51};
    for (const double lr : curves.log10_lr) {
      for (const double l2 : curves.log10_l2) {
        for (const double dropout : curves.dropout) {
          for (const int epoch : curves.epochs) {
            const double off = lr + 2.2 + 0.1 * i;
            const double end = 0.9 - 0.05 * i - 0.1 * off * off -
                               0.01 * (l2 + 3) * (l2 + 3) - 0.1 * dropout;
            const double learnt = 1 - std::exp(-epoch / 8.0);
            curves.values.push_back(
                static_cast<float>(0.1 + (end - 0.1) * learnt));
          }
        }
      }
    }
    all.push_back(std::move(curves));
  }
  return all;
}

inline std::vector<RecordedCube> tiny_cubes(int tasks) {
  const std::vector<RecordedCurves> curves = tiny_curves(tasks);
  const CubeAxes axes = prior_axes(curves);
  std::vector<RecordedCube> cubes;
  for (const RecordedCurves& one : curves) {
    cubes.push_back(recorded_cube(one, axes));
  }
  return cubes;
}

inline LearntPrior tiny_prior(int tasks) {
  return LearntPrior::learn(prior_axes(tiny_curves(tasks)), tiny_cubes(tasks),
                            5);
}

}  // namespace dtune
