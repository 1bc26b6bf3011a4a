// Trials of other studies as context for this one (`warm_start:`).
#pragma once

#include <string>
#include <vector>

#include "dtune/curves/cube.h"
#include "dtune/study/study.h"

namespace dtune {

// A study of old, as its database has it.
struct WarmStudy {
  std::string name;  // for messages: its file
  Recipe recipe;
  int horizon = 1;
  std::vector<Trial> trials;
};

// A table of results (space/point_table.h) as a study of old: its metric is in
// the column of the objective's name, or in `value` (Optuna); with a column
// `step`, rows of the same `trial` (or `number`) are a curve, and the largest
// step is the horizon; without, each row is the end of a trial. Rows without a
// metric are left out, as are the final trainings in a table of `dtune export
// --csv` (`kind`). Throws Error(config), "name:line:column: what": as
// read_point_table does, no column of the metric, a cell that is no number.
WarmStudy read_warm_table(const std::string& text, const std::string& name,
                          const Recipe& present);

// What it saw, in the present study's terms.
struct WarmObservation {
  std::vector<double> unit;  // of the present space
  CubePoint cube;            // with what the old recipe fixed
  double time = 1;           // share of the old horizon, (0, 1]
  double value = 0;          // by the old study's own MetricScale
  TrialId trial = 0;         // of the old study
};

// Throws Error(config) where the old study's metric or goal is another.
void check_warm_study(const Recipe& present, const WarmStudy& old);

// Reports on the old ladder and each trial's last one: first the last of every
// trial, then those before, the best first, at most `most`. Parameters that the
// present space does not know are dropped; a point that is then none of the
// space (a range or a parameter that the old study did not have) is left out.
std::vector<WarmObservation> warm_observations(const Recipe& present,
                                               const WarmStudy& old,
                                               size_t most);

}  // namespace dtune
