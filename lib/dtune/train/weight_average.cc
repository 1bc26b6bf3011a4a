#include "dtune/train/weight_average.h"

#include <algorithm>

namespace dtune {

double WeightAverage::share(int64_t updates) const {
  const auto t = static_cast<double>(updates);
  return 1 - std::min(decay_, (1 + t) / (10 + t));
}

void WeightAverage::add(Network& trained, int64_t updates) {
  const double by = share(updates);
  network_.weights().lerp_(trained.weights(), by);
  network_.buffers().lerp_(trained.buffers(), by);
}

void WeightAverage::add(Network& trained, const at::Tensor& share) {
  const auto move = [&](const at::Tensor& average, const at::Tensor& to) {
    average.lerp_(to, share.expand_as(average));
  };
  move(network_.weights(), trained.weights());
  move(network_.buffers(), trained.buffers());
}

}  // namespace dtune
