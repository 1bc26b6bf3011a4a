#include "dtune/study/plateau.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace dtune {
namespace {

constexpr size_t kFewestTrials = 10;

// Of the trials of the search, in the order of their start.
std::vector<double> values_of(const Study& study) {
  std::vector<double> values;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || !has_results(study, trial)) continue;
    if (const auto value = best_value(study.recipe.objective, trial)) {
      values.push_back(*value);
    }
  }
  return values;
}

}  // namespace

std::optional<double> chance_of_gain(const Study& study, double gain,
                                     double share) {
  const std::vector<double> all = values_of(study);
  if (all.size() < kFewestTrials) return std::nullopt;
  const double best = *std::max_element(all.begin(), all.end());
  const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
  std::vector<double> later(all.begin() + half, all.end());
  std::sort(later.begin(), later.end(), std::greater<>());
  const size_t above = std::max<size_t>(2, later.size() / 3);
  const double threshold = later[above];
  double excess = 0;
  for (size_t i = 0; i < above; ++i) excess += later[i] - threshold;
  const double scale = excess / double(above);
  const double height = best + gain - threshold;
  const double tail = scale > 0 ? std::exp(-height / scale) : 0;
  const double one = double(above) / double(later.size()) * tail;
  const double more = std::ceil(share * double(all.size()));
  return -std::expm1(more * std::log1p(-std::min(one, 1 - 1e-12)));
}

}  // namespace dtune
