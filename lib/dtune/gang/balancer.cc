#include "dtune/gang/balancer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtune/speed/shares.h"

namespace dtune::gang {
namespace {

bool usable(double speed) { return std::isfinite(speed) && speed > 0; }

// Batch norm needs two samples, where a network ends in maps of one pixel.
constexpr int64_t kLeastSamples = 2;

ShareLimits limits_of(int64_t batch, size_t ranks) {
  const auto parts = Balancer::kLeastPart * static_cast<int64_t>(ranks);
  return {.least = std::max(kLeastSamples, batch / parts)};
}

// Of the time of a ring all-reduce of n ranks, what is left with n - 1: the
// data take 2 (n - 1) / n of the bandwidth's time (distributed.md 3).
double overhead_with_one_less(double overhead, size_t ranks) {
  const auto n = static_cast<double>(ranks);
  return overhead * n * (n - 2) / ((n - 1) * (n - 1));
}

double throughput(int64_t batch, const std::vector<double>& speeds,
                  double overhead) {
  const auto shares =
      split_batch(batch, speeds, limits_of(batch, speeds.size()));
  return static_cast<double>(batch) /
         (round_seconds(shares, speeds) + overhead);
}

}  // namespace

Balancer::Balancer(const ParallelSpec& parallel, size_t members)
    : automatic_(parallel.stragglers == StragglerPolicy::automatic),
      kind_(parallel.predictor),
      ranks_(members) {}

void Balancer::observe(int member, double samples_per_second) {
  if (!usable(samples_per_second)) return;
  Rank& r = rank(member);
  r.measured = samples_per_second;
  r.suspected = 0;
  if (!r.predictor) r.predictor = make_speed_predictor(kind_);
  r.predictor->observe(samples_per_second);
  r.predicted = r.predictor->predict();
}

void Balancer::suspect(int member, double samples_per_second) {
  if (usable(samples_per_second)) rank(member).suspected = samples_per_second;
}

void Balancer::forget(int member) { rank(member) = Rank(); }

double Balancer::predicted(int member) const {
  const Rank& r = rank(member);
  if (r.suspected == 0) return r.predicted;
  return r.predicted == 0 ? r.suspected : std::min(r.predicted, r.suspected);
}

double Balancer::measured(int member) const { return rank(member).measured; }

std::vector<double> Balancer::predictions(
    const std::vector<int>& members) const {
  std::vector<double> speeds;
  speeds.reserve(members.size());
  for (const int m : members) speeds.push_back(automatic_ ? predicted(m) : 0);
  return speeds;
}

std::vector<int64_t> Balancer::split(int64_t batch,
                                     const std::vector<int>& members) {
  const ShareLimits limits = limits_of(batch, members.size());
  std::vector<double> in_force;
  in_force.reserve(members.size());
  for (const int m : members) in_force.push_back(rank(m).in_force);
  std::vector<int64_t> now = split_batch(batch, in_force, limits);
  const std::vector<double> speeds = predictions(members);
  std::vector<int64_t> next = split_batch(batch, speeds, limits);
  const bool known = std::all_of(speeds.begin(), speeds.end(), usable);
  changed_ = known && next != now && worth_changing(now, next, speeds, kGain);
  if (!changed_) return now;
  for (size_t i = 0; i < members.size(); ++i) {
    rank(members[i]).in_force = speeds[i];
  }
  return next;
}

std::vector<int64_t> Balancer::split_once(
    int64_t batch, const std::vector<int>& members) const {
  return split_batch(batch, predictions(members), {});
}

double Balancer::expected_seconds(const std::vector<int>& members,
                                  const std::vector<int64_t>& sizes) const {
  double longest = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const double speed = predicted(members[i]);
    if (speed > 0) {
      longest = std::max(longest, static_cast<double>(sizes[i]) / speed);
    }
  }
  return longest;
}

std::optional<int> Balancer::judge(int64_t batch,
                                   const std::vector<int>& members,
                                   double overhead) {
  std::vector<double> speeds = predictions(members);
  int accused = -1;
  if (members.size() > 2 && std::all_of(speeds.begin(), speeds.end(), usable)) {
    const double with = throughput(batch, speeds, overhead);
    const auto slowest = std::min_element(speeds.begin(), speeds.end());
    const int member =
        members[static_cast<size_t>(std::distance(speeds.begin(), slowest))];
    speeds.erase(slowest);
    const double without = throughput(
        batch, speeds, overhead_with_one_less(overhead, members.size()));
    if (with < kWorth * without) accused = member;
  }
  rounds_accused_ = accused >= 0 && accused == accused_
                        ? rounds_accused_ + 1
                        : (accused >= 0 ? 1 : 0);
  accused_ = accused;
  if (rounds_accused_ < kPersistent) return std::nullopt;
  rounds_accused_ = 0;
  return accused;
}

}  // namespace dtune::gang
