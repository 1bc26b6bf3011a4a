#include "dtune/tuner/gp_model.h"

#include <algorithm>

namespace dtune {
namespace {

using Eigen::Index;

// More outcomes than these would make fits slow: the best are kept, and some
// evenly spread over the ranks of the others.
constexpr size_t kBestKept = 140;
constexpr size_t kOthersKept = 60;
constexpr size_t kPendingKept = 200;
// Best first, ties in the order of the trials.
std::vector<Outcome> most_telling(std::vector<Outcome> outcomes) {
  std::stable_sort(
      outcomes.begin(), outcomes.end(),
      [](const Outcome& a, const Outcome& b) { return a.value > b.value; });
  if (outcomes.size() <= kBestKept + kOthersKept) return outcomes;
  std::vector<Outcome> kept(outcomes.begin(),
                            outcomes.begin() + std::ptrdiff_t(kBestKept));
  const size_t others = outcomes.size() - kBestKept;
  for (size_t i = 0; i < kOthersKept; ++i) {
    kept.push_back(outcomes[kBestKept + (i + 1) * others / kOthersKept - 1]);
  }
  return kept;
}

}  // namespace

std::vector<bool> FittedStudy::axes(const ModelSpace& space, bool with_length) {
  std::vector<bool> categories = space.categories();
  if (with_length) categories.push_back(false);
  return categories;
}

Eigen::VectorXd FittedStudy::vector_of(std::span<const double> coordinates,
                                       double length) const {
  const auto d = Index(coordinates.size());
  Eigen::VectorXd x(d + (with_length_ ? 1 : 0));
  for (Index i = 0; i < d; ++i) x[i] = coordinates[size_t(i)];
  if (with_length_) x[d] = length;
  return x;
}

FittedStudy::FittedStudy(const ModelSpace& space, const Evidence& evidence)
    : with_length_(evidence.mixed_lengths),
      outcomes_(most_telling(evidence.outcomes)),
      process_(axes(space, with_length_)) {
  const auto n = Index(outcomes_.size());
  const auto d = Index(space.dimensions()) + (with_length_ ? 1 : 0);
  Eigen::MatrixXd x(d, n);
  Eigen::VectorXd y(n);
  std::vector<Place> places;
  for (Index i = 0; i < n; ++i) {
    const Outcome& outcome = outcomes_[size_t(i)];
    places.push_back(space.place(outcome.trial->point));
    x.col(i) = vector_of(places.back().coordinates, outcome.length);
    y[i] = outcome.value;
  }
  const OutputWarp warp(y);
  process_.fit(x, y.unaryExpr([&](double v) { return warp.warp(v); }));
  // Under noise the largest value is the luckiest.
  for (Index i = 0; i < n; ++i) {
    best_ = std::max(best_, process_.predict(x.col(i)).mean);
  }
  process_.fantasize(pending_columns(space, evidence));
  centres_ = std::move(places);
  warp_ = warp;
}

// The latest of the pending trials, a column each.
Eigen::MatrixXd FittedStudy::pending_columns(const ModelSpace& space,
                                             const Evidence& evidence) const {
  const size_t count = std::min(evidence.pending.size(), kPendingKept);
  const auto d = Index(space.dimensions()) + (with_length_ ? 1 : 0);
  Eigen::MatrixXd pending(d, Index(count));
  for (size_t i = 0; i < count; ++i) {
    const Trial& trial = *evidence.pending[evidence.pending.size() - count + i];
    pending.col(Index(i)) = vector_of(space.place(trial.point).coordinates, 1);
  }
  return pending;
}

LogImprovement FittedStudy::improvement(std::span<const double> coordinates,
                                        std::vector<double>* slope) const {
  const GpPrediction p = predict(coordinates, slope != nullptr);
  const LogImprovement gain =
      log_expected_improvement(p.mean, p.deviation, best_);
  if (slope == nullptr) return gain;
  slope->resize(coordinates.size());
  for (size_t i = 0; i < slope->size(); ++i) {
    (*slope)[i] = gain.by_mean * p.mean_slope[Index(i)] +
                  gain.by_deviation * p.deviation_slope[Index(i)];
  }
  return gain;
}

}  // namespace dtune
