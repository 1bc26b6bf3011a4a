// Curves recorded on a grid of (learning rate, L2, dropout) over training time:
// what priors are learnt from, and what simulations train in place of a
// network.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dtune/curves/cube.h"

namespace dtune {

// Immutable once made; thread-safe.
struct RecordedCurves {
  std::string task;              // the data set's name; unique among data sets
  CubeContext context;           // what all these curves have in common
  std::vector<double> log10_lr;  // ascending, at least one each
  std::vector<double> log10_l2;
  std::vector<double> dropout;
  std::vector<int> epochs;    // recorded ones, ascending, from 1
  std::vector<float> values;  // [lr][l2][dropout][epoch], larger is better, in
                              // [0, 1]

  int steps() const { return epochs.back(); }  // of a full training

  // The trainings of which `values` is the mean, each with a seed of its own
  // and laid out as `values`: how much a single training differs from the mean.
  // Empty: one training a point, or a table without noise.
  std::vector<std::vector<float>> repeats;

  // What a point is worth that a training chose, by training and laid out as
  // `values`: the mean of the other trainings, smoothed over L2 and dropout by
  // weights of 1, 2 and 1. Along these two axes neighbours are alike and noise
  // is not: on eight recorded CNNs one training so smoothed predicts another
  // one with a root mean square error of .200 (as a share of best - median, the
  // best 20 points), and as it is with .238. Along the learning rate they are
  // not alike (.94). Set by weigh(); empty with fewer than two trainings.
  std::vector<std::vector<float>> worth;
  void weigh();

  // The same with the mean of several trainings smoothed as `worth` is: nearer to
  // what points are worth, for what is trained on them.
  RecordedCurves smoothed() const;

  // Interpolated linearly between grid points, and between recorded epochs in
  // the logarithm of the epoch; clamped at the ends. REQUIRES: step >= 1.
  double value(const CubePoint& point, int step) const;
  // The same of one training. REQUIRES: index < repeats.size().
  double repeat_value(size_t index, const CubePoint& point, int step) const;
  // What it is worth where that training chose it. REQUIRES: index <
  // worth.size().
  double worth_value(size_t index, const CubePoint& point, int step) const;

  // Over all points and epochs. The luckiest of the means is above what any
  // point is worth, so with more than one training a point: the worth of what
  // each training names as the best, on average. It names it as it is, or
  // smoothed over the grid, whichever is the better choice: a bound from below,
  // for either choice has noise.
  double best() const;
  double median_final() const;  // over all points, at the last epoch

 private:
  double worth_of(const std::vector<std::vector<float>>& named_by) const;
  std::vector<float> others_mean(size_t index) const;
  std::vector<float> smoothed_table(std::vector<float> table,
                                    bool over_lr) const;
  double interpolate(const std::vector<float>& table, const CubePoint& point,
                     int step) const;
};

// The upper median over all points of the last of each point's `times` values,
// laid out as RecordedCurves::values. REQUIRES: not empty.
float median_final(const std::vector<float>& values, size_t times);

// The place of a value on an ascending axis.
AxisPlace place_on(const std::vector<double>& axis, double value);

}  // namespace dtune
