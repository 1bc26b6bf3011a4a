// Cubes of recorded curves from a study that trained a grid of learning rate,
// L2 and dropout (the format of curves/curves_file.h).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "dtune/curves/recorded_curves.h"
#include "dtune/study/study.h"

namespace dtune {

// The parameters of a space that span the cube, by name.
struct CubeNames {
  std::string lr;
  std::string l2;
  std::string dropout;
};

// Throws Error(config), saying how to write it, unless the space is made of
// exactly these three: parameters of the keys train.lr, train.l2 and
// model.dropout; in a command's space those named lr, l2 and dropout.
CubeNames cube_names(const SearchSpace& space);

// Values of each axis in rising order, as many as `points` says: even in the
// logarithm for lr and l2, ends included; a parameter with few values of its
// own (choice) has those. Throws Error(config) for an invalid range, and for an
// lr or L2 that touches 0 (the cube's axes are their logarithms).
struct GridAxes {
  std::vector<double> lr;
  std::vector<double> l2;
  std::vector<double> dropout;

  size_t size() const { return lr.size() * l2.size() * dropout.size(); }
};
GridAxes axes_of_space(const SearchSpace& space, const CubeNames& names,
                       const std::array<int, 3>& points);

// The values that the study's search trials have. Throws Error(config) as
// cube_names does, and where they are no grid: fewer than half of the
// combinations were tried.
GridAxes axes_of_trials(const Study& study);

struct RecordingOptions {
  std::string task;
  CubeContext context;
  std::vector<int> epochs;  // steps to record, rising, from 1
  // What stands where a trial has no finite value (it diverged, crashed, was
  // never trained): what guessing would reach.
  double chance = 0;
};

struct Recording {
  RecordedCurves curves;
  size_t missing = 0;     // points without any value
  size_t incomplete = 0;  // points that end before the last epoch
  size_t lost = 0;        // of both: not diverged, but crashed, killed or lost
};

// The objective of the trials at these steps. Throws Error(config): the
// objective is to be minimized, or a value is outside [0, 1]; Error(study): no
// trial has a value.
Recording record_curves(const Study& study, const GridAxes& axes,
                        const RecordingOptions& options);

// One cube of the mean of several recordings of one grid, which are its
// repeats; the counts are summed. Throws Error(config): grids, steps or tasks
// differ. REQUIRES: at least one.
Recording merge_repeats(std::vector<Recording> recordings);

// 1, 2, ... up to `horizon`, thinned evenly in the logarithm to `most`.
std::vector<int> default_epochs(int horizon, size_t most = 32);

}  // namespace dtune
