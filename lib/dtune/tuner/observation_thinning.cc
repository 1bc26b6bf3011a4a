// thinned_out (surrogate_state.h).
#include <algorithm>
#include <map>
#include <numeric>

#include "dtune/tuner/surrogate_state.h"

namespace dtune {
namespace {

constexpr size_t kKeptObservations = 300;
// The share of these that the best get; the others keep the shape.
constexpr double kBestShare = 0.5;

}  // namespace

std::vector<Observed> thinned_out(std::vector<Observed> all) {
  if (all.size() <= kKeptObservations) return all;
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<bool> last(all.size(), true);
  std::map<TrialId, size_t> latest;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto before = latest.find(all[i].trial);
    if (before != latest.end()) last[before->second] = false;
    latest[all[i].trial] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (last[a] != last[b]) return static_cast<bool>(last[a]);
    return all[a].observation.value > all[b].observation.value;
  });
  const auto best = static_cast<size_t>(kBestShare * kKeptObservations);
  const size_t spread = kKeptObservations - best;
  const size_t lasts = std::max(latest.size(), kKeptObservations);
  for (size_t i = 0; i < spread; ++i) {
    order[best + i] = order[best + i * (lasts - best) / spread];
  }
  order.resize(kKeptObservations);
  std::sort(order.begin(), order.end());
  std::vector<Observed> kept;
  for (const size_t i : order) kept.push_back(std::move(all[i]));
  return kept;
}

}  // namespace dtune
