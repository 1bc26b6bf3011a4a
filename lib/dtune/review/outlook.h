// What more budget would bring: how far the trials that wait would raise the
// best, by the tuner's own forecasts.
#pragma once

#include <vector>

#include "dtune/review/replay.h"

namespace dtune {

// A trial that could go on, and what the tuner expects of it at the horizon.
struct OpenTrial {
  TrialId trial = 0;
  std::vector<Prediction> predicted;  // by step, the horizon's last
};

// The best after so many more steps of training.
struct OutlookPoint {
  int64_t steps = 0;
  double mean = 0;  // the metric; low, high: its 10% and 90% quantiles
  double low = 0;
  double high = 0;
};

// Paused and running trials of the search that the tuner can forecast, those
// with the best expected value at the horizon first, at most `most`. Of many,
// those are looked at whose values are the best so far.
std::vector<OpenTrial> open_trials(const Study& study, const ReplayTuner& tuner,
                                   size_t most);

// The open trials are trained to the horizon one after the other, in the order
// of what each is expected to add to the best for a step of training. Forecasts
// are taken as independent and normal, up to the upper end of their bands:
// where they err together, this overestimates. New points are not counted.
// Empty where nothing is open or there is no best.
std::vector<OutlookPoint> outlook(const Study& study,
                                  const std::vector<OpenTrial>& open);

}  // namespace dtune
