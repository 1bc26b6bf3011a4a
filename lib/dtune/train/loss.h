// Training losses with their gradients, written out. Plain arrays, no LibTorch:
// logits are small, and every sum is taken in double in a fixed order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/study/metrics.h"
#include "dtune/study/train_spec.h"

namespace dtune {

// Labels of a batch. Where samples are mixed, sample i has shares[i] of its own
// label and the rest of others[i]; both are empty otherwise.
struct Targets {
  // NOLINTNEXTLINE(google-explicit-constructor): plain labels are targets.
  Targets(std::span<const int32_t> own) : labels(own) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Targets(const std::vector<int32_t>& own) : labels(own) {}
  Targets(std::span<const int32_t> own, std::span<const int32_t> other,
          std::span<const float> of_own)
      : labels(own), others(other), shares(of_own) {}

  size_t size() const { return labels.size(); }
  Targets part(size_t first, size_t count) const;

  std::span<const int32_t> labels;
  std::span<const int32_t> others;
  std::span<const float> shares;
};

struct LossParameters {
  LossKind kind = {};
  double smoothing = 0;
  double gamma = 0;
  std::vector<double> class_weights;  // [classes]
};

// A loss over K classes. With p = softmax(z), label y and class weights w (all
// 1 unless balanced), a sample's loss is
//   cross-entropy: -sum_c q[c] log p[c],
//                  q[c] = w[c] ((1 - s) [c = y] + s / K), s: label smoothing
//                  (Szegedy et al. 2015, arXiv 1512.00567, section 7)
//     gradient:    p[k] sum_c q[c] - q[k]
//   focal:         -w[y] (1 - p[y])^g log p[y]
//                  (Lin et al. 2017, arXiv 1708.02002, eq. 5)
//     gradient:    w[y] (g (1 - p[y])^(g - 1) p[y] log p[y] - (1 - p[y])^g)
//                  ([k = y] - p[k])
// and a batch's loss is their sum over the sum of w[y], as in PyTorch's
// CrossEntropyLoss. A mixed sample's loss, gradient and weight are the means of
// those with either label, by their shares. Thread-safe.
class Loss {
 public:
  // `class_weights` empty: all 1.
  Loss(const TrainSpec& train, int classes, std::vector<double> class_weights);

  const LossParameters& parameters() const { return parameters_; }

  // The sum of w[y] over labels: what a batch's loss is divided by.
  double weight(const Targets& targets) const;

  // logits: [targets.size(), classes]; gradient: the same shape, receives
  // d(batch loss)/d(logits). The total weight is the sum of w[y]. A logit that
  // is not finite makes `loss` so too. Answers count as correct by the label
  // with the larger share.
  LossTotals operator()(std::span<const float> logits, const Targets& targets,
                        std::span<float> gradient) const;

 private:
  struct Softmax;
  double one(const Softmax& softmax, int label, double scale,
             float* gradient) const;
  double mixed(const Softmax& softmax, const Targets& targets, size_t sample,
               double scale, float* gradient) const;
  double cross_entropy(const Softmax& softmax, int label, double scale,
                       float* gradient) const;
  double focal(const Softmax& softmax, int label, double scale,
               float* gradient) const;

  int classes_;
  LossParameters parameters_;
};

// w[c] = N / (K n[c]), so that every class weighs the same in the sum over a
// split and the mean weight is 1; 0 for classes without samples (K counts the
// others).
std::vector<double> balanced_weights(std::span<const int64_t> class_counts);

}  // namespace dtune
