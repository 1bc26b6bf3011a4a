#include "dtune/gang/pace.h"

#include <algorithm>

#include "dtune/base/order_statistic.h"

namespace dtune::gang {

void Pace::add(Duration handed_to_ready) {
  if (recent_.size() < kWindow) {
    recent_.push_back(handed_to_ready);
    return;
  }
  recent_[next_] = handed_to_ready;
  next_ = (next_ + 1) % kWindow;
}

Duration Pace::quantile(double q) const {
  if (recent_.empty()) return Duration{0};
  const auto last = static_cast<double>(recent_.size() - 1);
  return order_statistic(recent_, static_cast<size_t>(q * last + 0.5));
}

std::optional<Duration> Pace::deadline(Duration expected) const {
  if (!known()) return std::nullopt;
  const double longest = to_seconds(std::max(quantile(0.75), expected));
  return from_seconds(kFactor * longest) + kFloor;
}

}  // namespace dtune::gang
