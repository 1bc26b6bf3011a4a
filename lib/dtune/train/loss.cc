#include "dtune/train/loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "dtune/base/error.h"

namespace dtune {

// Probabilities of one sample and their logarithms; scratch of a batch.
struct Loss::Softmax {
  explicit Softmax(int classes)
      : p(static_cast<size_t>(classes)), log_p(static_cast<size_t>(classes)) {}

  void set(std::span<const float> logits) {
    const auto [least, largest] = std::ranges::minmax(logits);
    double sum = 0;
    for (size_t k = 0; k < p.size(); ++k) {
      log_p[k] = double{logits[k]} - double{largest};
      p[k] = std::exp(log_p[k]);
      sum += p[k];
    }
    // Of -Inf the probability is 0, and no term of the loss would tell.
    const double log_sum = std::log(sum) + 0 * double{least};
    for (size_t k = 0; k < p.size(); ++k) {
      log_p[k] -= log_sum;
      p[k] /= sum;
    }
  }

  // 1 - p[label] without cancellation.
  double others(int label) const {
    double sum = 0;
    for (int k = 0; k < static_cast<int>(p.size()); ++k) {
      if (k != label) sum += p[k];
    }
    return sum;
  }

  std::vector<double> p;
  std::vector<double> log_p;
};

Loss::Loss(const TrainSpec& train, int classes,
           std::vector<double> class_weights)
    : classes_(classes),
      parameters_{train.loss, train.label_smoothing, train.focal_gamma,
                  std::move(class_weights)} {
  std::vector<double>& weights = parameters_.class_weights;
  if (weights.empty()) weights.assign(static_cast<size_t>(classes), 1.0);
  DTUNE_CHECK(weights.size() == static_cast<size_t>(classes));
}

Targets Targets::part(size_t first, size_t count) const {
  if (others.empty()) return labels.subspan(first, count);
  return {labels.subspan(first, count), others.subspan(first, count),
          shares.subspan(first, count)};
}

double Loss::weight(const Targets& targets) const {
  const std::vector<double>& weights = parameters_.class_weights;
  double sum = 0;
  if (targets.others.empty()) {
    for (const int32_t label : targets.labels) sum += weights[label];
    return sum;
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    const double share = targets.shares[i];
    sum += share * weights[targets.labels[i]] +
           (1 - share) * weights[targets.others[i]];
  }
  return sum;
}

LossTotals Loss::operator()(std::span<const float> logits,
                            const Targets& targets,
                            std::span<float> gradient) const {
  const auto width = static_cast<size_t>(classes_);
  DTUNE_CHECK(logits.size() == targets.size() * width);
  DTUNE_CHECK(gradient.size() == logits.size());
  LossTotals totals;
  totals.samples = static_cast<int64_t>(targets.size());
  totals.weight = weight(targets);
  const double scale = totals.weight > 0 ? 1 / totals.weight : 0;
  Softmax softmax(classes_);
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::span<const float> row = logits.subspan(i * width, width);
    float* out = gradient.data() + i * width;
    softmax.set(row);
    const bool mix = !targets.others.empty();
    totals.loss += mix ? mixed(softmax, targets, i, scale, out)
                       : one(softmax, targets.labels[i], scale, out);
    const int32_t label =
        mix && targets.shares[i] < 0.5F ? targets.others[i] : targets.labels[i];
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    totals.correct += best == label ? 1 : 0;
  }
  return totals;
}

double Loss::one(const Softmax& softmax, int label, double scale,
                 float* gradient) const {
  return parameters_.kind == LossKind::focal
             ? focal(softmax, label, scale, gradient)
             : cross_entropy(softmax, label, scale, gradient);
}

double Loss::mixed(const Softmax& softmax, const Targets& targets,
                   size_t sample, double scale, float* gradient) const {
  const double share = targets.shares[sample];
  std::vector<float> other(static_cast<size_t>(classes_));
  const double loss =
      share * one(softmax, targets.labels[sample], scale * share, gradient) +
      (1 - share) * one(softmax, targets.others[sample], scale * (1 - share),
                        other.data());
  for (size_t k = 0; k < other.size(); ++k) gradient[k] += other[k];
  return loss;
}

double Loss::cross_entropy(const Softmax& softmax, int label, double scale,
                           float* gradient) const {
  const auto& [kind, smoothing, gamma, weights] = parameters_;
  const double even = smoothing / classes_;
  double loss = 0;
  double sum = 0;
  for (int c = 0; c < classes_; ++c) {
    const double q = weights[c] * (even + (c == label ? 1 - smoothing : 0));
    if (q != 0) loss -= q * softmax.log_p[c];
    sum += q;
  }
  for (int k = 0; k < classes_; ++k) {
    const double q = weights[k] * (even + (k == label ? 1 - smoothing : 0));
    gradient[k] = static_cast<float>(scale * (softmax.p[k] * sum - q));
  }
  return loss;
}

double Loss::focal(const Softmax& softmax, int label, double scale,
                   float* gradient) const {
  const double rest = softmax.others(label);  // 1 - p[y]
  const double gamma = parameters_.gamma;
  const double weight = parameters_.class_weights[label];
  const double modulation = std::pow(rest, gamma);
  // At rest = 0 the product's limit is 0 for every g > 0.
  const double slope = rest > 0 ? gamma * std::pow(rest, gamma - 1) *
                                      softmax.p[label] * softmax.log_p[label]
                                : 0;
  const double factor = scale * weight * (slope - modulation);
  for (int k = 0; k < classes_; ++k) {
    const double away = k == label ? rest : -softmax.p[k];
    gradient[k] = static_cast<float>(factor * away);
  }
  return -weight * modulation * softmax.log_p[label];
}

std::vector<double> balanced_weights(std::span<const int64_t> class_counts) {
  const double total = static_cast<double>(
      std::accumulate(class_counts.begin(), class_counts.end(), int64_t{0}));
  const auto present = static_cast<double>(
      std::count_if(class_counts.begin(), class_counts.end(),
                    [](int64_t n) { return n > 0; }));
  std::vector<double> weights;
  weights.reserve(class_counts.size());
  for (const int64_t n : class_counts) {
    weights.push_back(n > 0 ? total / (present * static_cast<double>(n)) : 0);
  }
  return weights;
}

}  // namespace dtune
