#include "dtune/speed/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtune/base/error.h"

namespace dtune {
namespace {

bool known(double speed) { return std::isfinite(speed) && speed > 0; }

// Unknown speeds replaced, and all relative to the fastest: sums cannot
// overflow. Empty where none is known.
std::vector<double> relative_speeds(std::span<const double> speeds) {
  double fastest = 0;
  for (const double v : speeds) {
    if (known(v)) fastest = std::max(fastest, v);
  }
  if (fastest == 0) return {};
  double sum = 0;
  int64_t count = 0;
  for (const double v : speeds) {
    if (!known(v)) continue;
    sum += v / fastest;
    ++count;
  }
  const double mean = sum / static_cast<double>(count);
  std::vector<double> relative;
  for (const double v : speeds) {
    // A speed of 1e-320 of the fastest would be 0 and divide by it.
    relative.push_back(known(v) ? std::max(v / fastest, 1e-300) : mean);
  }
  return relative;
}

int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// How many ranks take part, and between which shares.
struct Bounds {
  int64_t ranks = 0;
  int64_t least = 0;
  int64_t most = 0;
};

Bounds bounds_of(int64_t batch, int64_t ranks, const ShareLimits& limits) {
  Bounds bounds;
  bounds.most = std::max({limits.most, divide_up(batch, ranks), int64_t{1}});
  bounds.least = std::clamp<int64_t>(limits.least, 0, bounds.most);
  bounds.ranks = ranks;
  if (bounds.least > 0) {
    const int64_t needed = divide_up(batch, bounds.most);
    bounds.ranks =
        std::clamp(std::max(batch / bounds.least, needed), int64_t{1}, ranks);
    bounds.least = std::min(bounds.least, batch / bounds.ranks);
  }
  return bounds;
}

// The t with sum clamp(t v_i, least, most) = batch: clamps those that are off
// on the side that is off by more, until none is (the resolution of flexible
// lengths in CSS Flexible Box Layout, 9.7). At most a rank a pass.
std::vector<double> ideal_shares(double batch, std::span<const double> speeds,
                                 double least, double most) {
  std::vector<double> shares(speeds.size());
  std::vector<bool> fixed(speeds.size());
  for (size_t pass = 0; pass <= speeds.size(); ++pass) {
    double rest = batch;
    double sum = 0;
    for (size_t i = 0; i < speeds.size(); ++i) {
      fixed[i] ? rest -= shares[i] : sum += speeds[i];
    }
    if (sum == 0) break;
    double off = 0;
    for (size_t i = 0; i < speeds.size(); ++i) {
      if (fixed[i]) continue;
      shares[i] = rest * (speeds[i] / sum);
      off += std::clamp(shares[i], least, most) - shares[i];
    }
    bool all_fit = true;
    for (size_t i = 0; i < speeds.size(); ++i) {
      if (fixed[i]) continue;
      const double clamped = std::clamp(shares[i], least, most);
      all_fit = all_fit && clamped == shares[i];
      const bool low = clamped > shares[i];
      fixed[i] = clamped != shares[i] && (low ? off >= 0 : off <= 0);
      if (fixed[i]) shares[i] = clamped;
    }
    if (all_fit) break;
  }
  for (double& share : shares) share = std::clamp(share, least, most);
  return shares;
}

// Integers that sum to `batch`: the largest remainders are rounded up, among
// equals those of the first. REQUIRES: `ideal` falls or stays.
std::vector<int64_t> round_shares(int64_t batch, std::span<const double> ideal,
                                  const Bounds& bounds) {
  std::vector<int64_t> shares(ideal.size());
  std::vector<double> remainders(ideal.size());
  std::vector<size_t> order(ideal.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t left = batch;
  for (size_t i = 0; i < ideal.size(); ++i) {
    // 1e-9: what is whole but for rounding errors. 9.2e18: fits an int64_t.
    const double floor = std::min(std::floor(ideal[i] + 1e-9), 9.2e18);
    shares[i] =
        std::clamp(static_cast<int64_t>(floor), bounds.least, bounds.most);
    remainders[i] = ideal[i] - static_cast<double>(shares[i]);
    left -= shares[i];
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return remainders[a] > remainders[b];
  });
  // More than one pass only where doubles are too coarse for the batch.
  while (left > 0) {
    for (const size_t i : order) {
      if (left > 0 && shares[i] < bounds.most) ++shares[i], --left;
    }
  }
  std::reverse(order.begin(), order.end());
  while (left < 0) {
    for (const size_t i : order) {
      if (left < 0 && shares[i] > bounds.least) --shares[i], ++left;
    }
  }
  return shares;
}

// Per sample: seconds of the round over its batch.
double sample_seconds(std::span<const int64_t> shares,
                      std::span<const double> speeds) {
  const int64_t batch =
      std::accumulate(shares.begin(), shares.end(), int64_t{0});
  if (batch <= 0) return 0;
  return round_seconds(shares, speeds) / static_cast<double>(batch);
}

}  // namespace

std::vector<int64_t> split_batch(int64_t batch, std::span<const double> speeds,
                                 const ShareLimits& limits) {
  DTUNE_CHECK(batch >= 0 && !speeds.empty());
  std::vector<double> relative = relative_speeds(speeds);
  if (relative.empty()) relative.assign(speeds.size(), 1);
  std::vector<size_t> order(speeds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return relative[a] > relative[b];
  });
  const Bounds bounds =
      bounds_of(batch, static_cast<int64_t>(speeds.size()), limits);
  std::vector<double> of_those;
  for (int64_t i = 0; i < bounds.ranks; ++i) {
    of_those.push_back(relative[order[static_cast<size_t>(i)]]);
  }
  const std::vector<int64_t> rounded =
      round_shares(batch,
                   ideal_shares(static_cast<double>(batch), of_those,
                                static_cast<double>(bounds.least),
                                static_cast<double>(bounds.most)),
                   bounds);
  std::vector<int64_t> shares(speeds.size());
  for (size_t i = 0; i < rounded.size(); ++i) shares[order[i]] = rounded[i];
  return shares;
}

double round_seconds(std::span<const int64_t> shares,
                     std::span<const double> speeds) {
  DTUNE_CHECK(shares.size() == speeds.size());
  const std::vector<double> relative = relative_speeds(speeds);
  double longest = 0;
  double fastest = 0;
  for (size_t i = 0; i < relative.size(); ++i) {
    if (known(speeds[i])) fastest = std::max(fastest, speeds[i]);
    longest = std::max(longest, static_cast<double>(shares[i]) / relative[i]);
  }
  return fastest > 0 ? longest / fastest : 0;
}

bool worth_changing(std::span<const int64_t> now, std::span<const int64_t> next,
                    std::span<const double> speeds, double gain) {
  if (now.size() != next.size()) return true;
  const double before = sample_seconds(now, speeds);
  const double after = sample_seconds(next, speeds);
  return after > 0 && after <= (1 - gain) * before && after < before;
}

}  // namespace dtune
