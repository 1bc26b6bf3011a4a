#include "dtune/review/forest.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

namespace dtune {
namespace {

struct Split {
  size_t axis = 0;
  double at = 0;
  double gain = 0;  // of the sum of squares; 0: no split
};

class TreeGrower {
 public:
  TreeGrower(const std::vector<ForestSample>& samples,
             const ForestOptions& options, uint64_t seed)
      : samples_(samples), options_(options), rng_(seed) {}

  ForestTree grow(std::vector<size_t> chosen) {
    ForestBox whole;
    whole.low.assign(samples_[0].at.size(), 0);
    whole.high.assign(samples_[0].at.size(), 1);
    divide(chosen, std::move(whole));
    return std::move(tree_);
  }

 private:
  void divide(std::span<size_t> chosen, ForestBox box) {
    const Split split = best_split(chosen);
    if (split.gain <= 0) {
      double sum = 0;
      for (const size_t i : chosen) sum += samples_[i].value;
      box.mean = sum / static_cast<double>(chosen.size());
      tree_.push_back(std::move(box));
      return;
    }
    const auto middle = std::partition(
        chosen.begin(), chosen.end(),
        [&](size_t i) { return samples_[i].at[split.axis] < split.at; });
    const auto left = static_cast<size_t>(middle - chosen.begin());
    ForestBox low = box;
    low.high[split.axis] = split.at;
    box.low[split.axis] = split.at;
    divide(chosen.first(left), std::move(low));
    divide(chosen.subspan(left), std::move(box));
  }

  Split best_split(std::span<size_t> chosen) {
    Split best;
    const auto min_leaf = static_cast<size_t>(options_.min_leaf);
    if (chosen.size() < 2 * min_leaf) return best;
    std::vector<size_t> axes(samples_[0].at.size());
    std::iota(axes.begin(), axes.end(), 0);
    rng_.shuffle(std::span(axes));
    const double share = options_.features * static_cast<double>(axes.size());
    axes.resize(std::max<size_t>(1, static_cast<size_t>(share + 0.5)));
    for (const size_t axis : axes) try_axis(chosen, axis, best);
    return best;
  }

  // With s the sum and n the count of each side, s1^2/n1 + s2^2/n2 is what the
  // squared error falls by, but for a constant.
  void try_axis(std::span<size_t> chosen, size_t axis, Split& best) {
    std::sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
      return samples_[a].at[axis] < samples_[b].at[axis];
    });
    double total = 0;
    for (const size_t i : chosen) total += samples_[i].value;
    const auto n = static_cast<double>(chosen.size());
    const auto min_leaf = static_cast<size_t>(options_.min_leaf);
    double sum = 0;
    for (size_t k = 1; k < chosen.size(); ++k) {
      sum += samples_[chosen[k - 1]].value;
      if (k < min_leaf || chosen.size() - k < min_leaf) continue;
      const double before = samples_[chosen[k - 1]].at[axis];
      const double after = samples_[chosen[k]].at[axis];
      if (before == after) continue;
      const auto left = static_cast<double>(k);
      const double rest = total - sum;
      const double gain =
          sum * sum / left + rest * rest / (n - left) - total * total / n;
      if (gain > best.gain) best = {axis, (before + after) / 2, gain};
    }
  }

  const std::vector<ForestSample>& samples_;
  const ForestOptions& options_;
  Rng rng_;
  ForestTree tree_;
};

}  // namespace

std::vector<ForestTree> grow_forest(const std::vector<ForestSample>& samples,
                                    const ForestOptions& options,
                                    uint64_t seed) {
  std::map<size_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < samples.size(); ++i) {
    groups[samples[i].group].push_back(i);
  }
  std::vector<const std::vector<size_t>*> all;
  for (const auto& [group, members] : groups) all.push_back(&members);

  std::vector<ForestTree> forest;
  for (int t = 0; t < options.trees; ++t) {
    Rng rng(mix_seed({seed, hash_text("bootstrap"), uint64_t(t)}));
    std::vector<size_t> chosen;
    for (size_t k = 0; k < all.size(); ++k) {
      const auto& members = *all[rng.below(all.size())];
      chosen.insert(chosen.end(), members.begin(), members.end());
    }
    TreeGrower grower(samples, options,
                      mix_seed({seed, hash_text("tree"), uint64_t(t)}));
    forest.push_back(grower.grow(std::move(chosen)));
  }
  return forest;
}

}  // namespace dtune
