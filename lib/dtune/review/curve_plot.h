// A trial's curve as a small plot of characters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dtune/report/text.h"
#include "dtune/study/tuner.h"

namespace dtune {

struct CurvePlot {
  std::vector<std::pair<int, double>> observed;  // step, metric; finite ones
  std::vector<Prediction> predicted;             // by step
  int last_step = 1;                             // the right end of the plot
};

// Lines without line ends: the plot with the metric on the left, the steps
// below it and, where there is a prediction, what the signs mean. At most
// style.columns wide; empty where nothing is to be shown.
std::vector<std::string> draw_curve(const CurvePlot& plot,
                                    const TextStyle& style);

}  // namespace dtune
