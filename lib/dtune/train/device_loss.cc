#include "dtune/train/device_loss.h"

#include <algorithm>

#include "dtune/base/error.h"
#include "dtune/nn/transfer.h"

namespace dtune {
namespace {

// What the batches have beside logits: views of judging_numbers.
struct Judging {
  at::Tensor labels;     // [K, n] int64
  at::Tensor others;     // likewise
  at::Tensor shares;     // [K, n, 1] float64, of the own labels
  at::Tensor smoothing;  // [K, 1, 1] float64, as all that follow
  at::Tensor gamma;
  at::Tensor scale;    // one over the batch's weight
  at::Tensor focal;    // bool; undefined where all batches have one kind
  at::Tensor weights;  // [K, 1, classes], of classes
};

bool is_of_one_kind(const JudgingKinds& kinds) {
  return std::ranges::all_of(kinds.losses, [&](LossKind kind) {
    return kind == kinds.losses.front();
  });
}

void append(const JudgedBatch& batch, std::vector<double>& numbers) {
  const Targets& targets = batch.targets;
  const auto& [kind, smoothing, gamma, weights] = batch.loss->parameters();
  const bool mixed = !targets.others.empty();
  const auto add = [&](const auto& values) {
    numbers.insert(numbers.end(), values.begin(), values.end());
  };
  add(targets.labels);
  add(mixed ? targets.others : targets.labels);
  if (mixed) {
    add(targets.shares);
  } else {
    numbers.insert(numbers.end(), targets.size(), 1.0);
  }
  const double weight = batch.loss->weight(targets);
  add(std::vector<double>{smoothing, gamma, weight > 0 ? 1 / weight : 0,
                          kind == LossKind::focal ? 1.0 : 0.0});
  add(weights);
}

Judging judging_of(const at::Tensor& numbers, const at::Tensor& logits,
                   const JudgingKinds& kinds) {
  const int64_t n = logits.size(1);
  const int64_t classes = logits.size(2);
  DTUNE_CHECK(numbers.size(0) == logits.size(0) &&
              numbers.size(1) == 3 * n + 4 + classes);
  const auto number = [&](int64_t which) {
    return numbers.narrow(1, 3 * n + which, 1).unsqueeze(2);
  };
  return {.labels = numbers.narrow(1, 0, n).to(at::kLong),
          .others = numbers.narrow(1, n, n).to(at::kLong),
          .shares = numbers.narrow(1, 2 * n, n).unsqueeze(2),
          .smoothing = number(0),
          .gamma = number(1),
          .scale = number(2),
          .focal = is_of_one_kind(kinds) ? at::Tensor() : number(3).ne(0),
          .weights = numbers.narrow(1, 3 * n + 4, classes).unsqueeze(1)};
}

struct Softmax {
  at::Tensor p;      // [K, n, classes] float64
  at::Tensor log_p;  // likewise
};

struct Part {
  at::Tensor losses;     // [K, n, 1], of the samples
  at::Tensor gradients;  // [K, n, classes]
};

Part cross_entropy(const Softmax& softmax, const Judging& by,
                   const at::Tensor& is_label) {
  const at::Tensor q = by.weights * (is_label * (1 - by.smoothing) +
                                     by.smoothing / softmax.p.size(2));
  return {-(q * softmax.log_p).sum({2}, /*keepdim=*/true),
          softmax.p * q.sum({2}, true) - q};
}

Part focal(const Softmax& softmax, const Judging& by,
           const at::Tensor& is_label) {
  const auto of_label = [&](const at::Tensor& x) {
    return (x * is_label).sum({2}, /*keepdim=*/true);
  };
  const at::Tensor rest = (softmax.p * (1 - is_label)).sum({2}, true);
  const at::Tensor log_p = of_label(softmax.log_p);
  const at::Tensor weight = of_label(by.weights.expand_as(is_label));
  const at::Tensor modulation = rest.pow(by.gamma);
  const at::Tensor slope =
      at::where(rest.gt(0),
                by.gamma * rest.pow(by.gamma - 1) * of_label(softmax.p) * log_p,
                at::zeros_like(rest));
  const at::Tensor away = at::where(is_label.ne(0), rest, -softmax.p);
  return {-weight * modulation * log_p, weight * (slope - modulation) * away};
}

// With one label for each sample. `kind`: of the first batch.
Part judged(const Softmax& softmax, const Judging& by, LossKind kind,
            const at::Tensor& labels) {
  const at::Tensor is_label =
      at::zeros_like(softmax.p).scatter_(2, labels.unsqueeze(2), 1.0);
  if (!by.focal.defined()) {
    return kind == LossKind::focal ? focal(softmax, by, is_label)
                                   : cross_entropy(softmax, by, is_label);
  }
  const Part plain = cross_entropy(softmax, by, is_label);
  const Part other = focal(softmax, by, is_label);
  return {at::where(by.focal, other.losses, plain.losses),
          at::where(by.focal, other.gradients, plain.gradients)};
}

}  // namespace

JudgingKinds judging_kinds(const std::vector<JudgedBatch>& batches) {
  JudgingKinds kinds;
  for (const JudgedBatch& batch : batches) {
    kinds.losses.push_back(batch.loss->parameters().kind);
    kinds.mixes = kinds.mixes || !batch.targets.others.empty();
  }
  return kinds;
}

at::Tensor judging_numbers(const std::vector<JudgedBatch>& batches,
                           const at::Device& device) {
  std::vector<double> numbers;
  for (const JudgedBatch& batch : batches) append(batch, numbers);
  const auto rows = static_cast<int64_t>(batches.size());
  const at::Tensor host = host_tensor(
      {rows, static_cast<int64_t>(numbers.size()) / rows}, at::kDouble, device);
  std::ranges::copy(numbers, host.data_ptr<double>());
  return host;
}

DeviceLosses device_losses(const at::Tensor& logits,
                           const std::vector<JudgedBatch>& batches) {
  const at::Device device = logits.device();
  return device_losses(logits, send(judging_numbers(batches, device), device),
                       judging_kinds(batches));
}

DeviceLosses device_losses(const at::Tensor& logits, const at::Tensor& numbers,
                           const JudgingKinds& kinds) {
  const Judging by = judging_of(numbers, logits, kinds);
  const LossKind kind = kinds.losses.front();
  const at::Tensor log_p = logits.to(at::kDouble).log_softmax(2);
  const Softmax softmax{log_p.exp(), log_p};
  Part part = judged(softmax, by, kind, by.labels);
  at::Tensor expected = by.labels;
  if (kinds.mixes) {
    const Part other = judged(softmax, by, kind, by.others);
    part = {by.shares * part.losses + (1 - by.shares) * other.losses,
            by.shares * part.gradients + (1 - by.shares) * other.gradients};
    expected = at::where(by.shares.squeeze(2).lt(0.5), by.others, by.labels);
  }
  return {.gradients = (part.gradients * by.scale).to(at::kFloat),
          .losses = part.losses.sum({1, 2}),
          .correct = logits.argmax(2).eq(expected).sum({1}).to(at::kDouble)};
}

}  // namespace dtune
