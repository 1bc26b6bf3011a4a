#include "dtune/cluster/step_limit.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/order_statistic.h"

namespace dtune {
namespace {

constexpr size_t kMostSeen = 256;
constexpr double kLeastFactor = 10;
constexpr Duration kFirstStep = std::chrono::hours(1);
constexpr Duration kMost = std::chrono::hours(24 * 7);
constexpr int kMostDoublings = 10;

}  // namespace

StepLimit::StepLimit(Duration configured) : configured_(configured) {}

void StepLimit::add(double seconds) {
  if (!(seconds > 0)) return;
  if (seen_.size() < kMostSeen) {
    seen_.push_back(seconds);
  } else {
    seen_[next_++ % kMostSeen] = seconds;
  }
  longest_ = std::max(longest_, seconds);
  measured_ = longest_ * std::max(kLeastFactor, longest_ / upper_median(seen_));
}

double StepLimit::longest() const {
  return seen_.empty() ? 0 : *std::max_element(seen_.begin(), seen_.end());
}

Duration StepLimit::limit(TrialId trial, Duration least) const {
  if (configured_.count() > 0) return configured_;
  double seconds = measured_ > 0 ? std::max(to_seconds(least), measured_)
                                 : to_seconds(kFirstStep);
  const auto doublings = doublings_.find(trial);
  if (doublings != doublings_.end()) seconds *= 1 << doublings->second;
  return from_seconds(std::min(seconds, to_seconds(kMost)));
}

std::string StepLimit::reason_to_end(TrialId trial, Duration taken,
                                     Duration silent) const {
  const bool automatic = configured_.count() == 0;
  const bool endless = taken > limit(trial, kBusy);
  if (!endless && silent <= limit(trial, kQuiet)) return "";
  std::string text =
      fmt::format("no step was finished for {}", format_duration(taken));
  if (!automatic) return text + " (limits.step_time)";
  if (!endless) {
    text += fmt::format(", and nothing was computed or written for {}",
                        format_duration(silent));
  }
  if (longest_ > 0) {
    text += fmt::format(", where the longest step took {}",
                        format_duration(from_seconds(longest_)));
  }
  return text + " (automatic limit; limits.step_time sets another)";
}

void StepLimit::ended(TrialId trial) {
  int& doublings = doublings_[trial];
  doublings = std::min(doublings + 1, kMostDoublings);
}

}  // namespace dtune
