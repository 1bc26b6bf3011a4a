// Statistics of simulated studies for other programs, and as a picture.
#pragma once

#include <string>
#include <vector>

#include "dtune/simulate/statistics.h"

namespace dtune {

// What the studies had in common.
struct BenchmarkFacts {
  std::string curves;  // the file
  std::vector<std::string> tasks;
  int seeds = 0;
  int slots = 1;
  double noise = 0;
  double spread = 0;
  std::string misleading;  // of curves/misleading.h; "": as recorded
  uint64_t seed = 0;
};

// {"rows": [{"sampler", "scheduler", "regret": {"51": 0.1, ...}, "rank": {...},
//   "median": {...}, "low": {...}, "high": {...}, "difference": {...} (to the
//   first row's regret), "difference_low", "difference_high", "seeds", "runs",
//   "trials" (mean of a study), "cuts", "cuts_wrong", "cuts_wrong_share" (null
//   without cuts), "predictions", "in_band_share" (of the predictions; null
//   without any), "seconds" (wall clock of a study)}],
//  "curves", "tasks": [...], "seeds", "slots", "noise", "spread", "misleading",
//  "seed"}
std::string statistics_json(const std::vector<ContenderStatistics>& rows,
                            const BenchmarkFacts& facts);

// Mean regret against budget, both axes logarithmic, with the bootstrap's band
// and a legend: an SVG document that needs no other file.
std::string statistics_svg(const std::vector<ContenderStatistics>& rows,
                           const BenchmarkFacts& facts);

}  // namespace dtune
