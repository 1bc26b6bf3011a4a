#include "dtune/gang/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace dtune::gang {
namespace {

constexpr double kNewest = 0.1;  // of a moving average

}  // namespace

Timing::Timing(const ParallelSpec& parallel, size_t members)
    : automatic_(parallel.stragglers == StragglerPolicy::automatic),
      balancer_(parallel, members),
      sums_(members),
      shares_(members) {}

void Timing::observe(int member, const RoundTimes& times, bool shows_speed) {
  Sums& m = sums_.at(static_cast<size_t>(member));
  const double compute = times.compute();
  const double all =
      compute + times.exposed + times.waiting + times.update + times.other;
  if (!std::isfinite(all)) return;
  m.times += times;
  if (!shows_speed || times.samples <= 0 || !(compute > 0)) return;
  // A spike is no speed: shares do not follow it.
  const double running = compute - std::max(0.0, times.stopped);
  if (running > 0) {
    balancer_.observe(member, static_cast<double>(times.samples) / running);
  }
  m.wait_share += kNewest * (times.waiting / all - m.wait_share);
  const double overhead = times.exposed + times.update;
  m.overhead = m.overhead < 0 ? overhead
                              : m.overhead + kNewest * (overhead - m.overhead);
  if (times.until_ready > 0 && times.stopped == 0) {
    const double share = std::min(1.0, times.until_ready / compute);
    ready_share_ += kNewest * (share - ready_share_);
  }
}

void Timing::suspect(int member, int64_t samples, Duration taken) {
  if (taken <= Duration{0}) return;
  const double speed = static_cast<double>(samples) / to_seconds(taken);
  balancer_.suspect(member, speed * ready_share_);
}

void Timing::end_round(int64_t samples, MonoTime now) {
  constexpr size_t kRecent = 64;
  pace_.end_round();
  accepted_.push_back({now, samples});
  if (accepted_.size() > kRecent) accepted_.erase(accepted_.begin());
}

Duration Timing::patience(Duration least) const {
  constexpr Duration kUnknown = std::chrono::seconds(10);
  constexpr Duration kMost = std::chrono::seconds(60);
  if (!automatic_) return kMost;
  if (!pace_.known()) return kUnknown;
  return std::clamp(kRounds * pace_.quantile(0.5), least, kMost);
}

std::optional<Duration> Timing::deadline(const Round& round) const {
  const double expected =
      balancer_.expected_seconds(round.members(), round.sizes());
  return pace_.deadline(from_seconds(ready_share_ * expected));
}

int Timing::fastest(const std::vector<int>& members) const {
  return *std::max_element(
      members.begin(), members.end(), [this](int a, int b) {
        return balancer_.predicted(a) < balancer_.predicted(b);
      });
}

std::vector<int64_t> Timing::split(int64_t batch,
                                   const std::vector<int>& members,
                                   Decisions& decisions) {
  constexpr double kMuch = 0.1;
  std::vector<int64_t> sizes = balancer_.split(batch, members);
  std::vector<double> shares(shares_.size(), 0);
  std::map<std::string, double> counters;
  std::string text;
  double largest_change = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto m = static_cast<size_t>(members[i]);
    shares[m] = static_cast<double>(sizes[i]) /
                static_cast<double>(std::max<int64_t>(1, batch));
    const double before = m < shares_reported_.size()
                              ? shares_reported_[m]
                              : 1.0 / static_cast<double>(members.size());
    largest_change = std::max(largest_change, std::abs(shares[m] - before));
    counters[fmt::format("rank {}", m)] = static_cast<double>(sizes[i]);
    text += fmt::format("{}{}", text.empty() ? "" : " : ", sizes[i]);
  }
  decisions.mark("batch share", std::move(counters));
  shares_ = shares;
  if (balancer_.changed() && largest_change >= kMuch) {
    shares_reported_ = std::move(shares);
    decisions.event(
        GangEvent::Kind::balanced, -1,
        fmt::format("the batch is shared {} by predicted speeds", text));
  }
  return sizes;
}

std::optional<Timing::Verdict> Timing::judge(
    int64_t batch, const std::vector<int>& participants) {
  // The last to come to the reduction waits for no other in it.
  double overhead = std::numeric_limits<double>::infinity();
  for (const int p : participants) {
    const double own = sums_.at(static_cast<size_t>(p)).overhead;
    if (own >= 0) overhead = std::min(overhead, own);
  }
  if (!std::isfinite(overhead)) return std::nullopt;
  const auto evicted = balancer_.judge(batch, participants, overhead);
  if (!evicted) return std::nullopt;
  return Verdict{*evicted,
                 fmt::format("costs more than it brings: {:.0f} samples/s, and "
                             "each round spends {:.3f} s on synchronisation",
                             balancer_.predicted(*evicted), overhead)};
}

double Timing::samples_per_second() const {
  if (accepted_.size() < 2) return 0;
  int64_t samples = 0;
  for (size_t i = 1; i < accepted_.size(); ++i) samples += accepted_[i].samples;
  const double span =
      to_seconds(accepted_.back().when - accepted_.front().when);
  return span > 0 ? static_cast<double>(samples) / span : 0;
}

void Timing::describe(int member, MemberStatus& status) const {
  const Sums& m = sums_.at(static_cast<size_t>(member));
  status.share = shares_.at(static_cast<size_t>(member));
  status.samples_per_second = balancer_.measured(member);
  status.predicted = balancer_.predicted(member);
  status.wait_share = m.wait_share;
  status.times = m.times;
}

}  // namespace dtune::gang
