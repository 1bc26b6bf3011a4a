#include "dtune/train/weight_average.h"

#include <algorithm>

namespace dtune {

void WeightAverage::add(Network& trained, int64_t updates) {
  const auto t = static_cast<double>(updates);
  const double share = 1 - std::min(decay_, (1 + t) / (10 + t));
  network_.weights().lerp_(trained.weights(), share);
  network_.buffers().lerp_(trained.buffers(), share);
}

}  // namespace dtune
