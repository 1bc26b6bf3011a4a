#include "dtune/gang/pace.h"

#include <algorithm>

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
  std::vector<Duration> sorted = recent_;
  const auto index =
      static_cast<size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5);
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

std::optional<Duration> Pace::deadline(Duration expected) const {
  if (rounds_ < kLeastRounds) return std::nullopt;
  const double longest = to_seconds(std::max(quantile(0.95), expected));
  return from_seconds(kFactor * longest) + kFloor;
}

}  // namespace dtune::gang
