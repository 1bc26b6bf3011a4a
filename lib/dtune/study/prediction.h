// What a tuner expects, as numbers.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace dtune {

// What a tuner expects of a trial, in the metric's own units.
struct Prediction {
  int step = 0;
  double mean = 0;
  double low = 0;  // ends of the band that holds the metric with 90%
  double high = 0;
};

// What a tuner went by when it decided about a trial: both are empty for tuners
// that predict nothing.
struct Belief {
  // By predictor ("convlstm", "learnt", "plain"), 0..1: they sum to 1.
  std::map<std::string, double> weights;
  std::optional<Prediction> forecast;  // of the decision's trial
};

}  // namespace dtune
