#include "dtune/train/fused_update.h"

#include <array>
#include <span>

#include "dtune/base/error.h"
#include "dtune/nn/transfer.h"

namespace dtune {
namespace {

using RowNumber = double (*)(const RowStep&);

// Rows of update_numbers: these, then the rule's own.
enum : int64_t { at_clip_norm, at_average, at_gradient_scale, at_rule };

constexpr std::array<RowNumber, 3> kCommon = {
    [](const RowStep& row) { return row.clip_norm; },
    [](const RowStep& row) { return row.average; },
    [](const RowStep& row) { return row.step.gradient_scale; }};

// The step is own * gradient + carried * velocity, as in update_rule.cc.
constexpr std::array<RowNumber, 3> kSgd = {
    [](const RowStep& row) { return row.train->momentum; },
    [](const RowStep& row) { return row.train->nesterov ? -row.step.lr : 0; },
    [](const RowStep& row) {
      return -row.step.lr * (row.train->nesterov ? row.train->momentum : 1);
    }};

bool decoupled(const RowStep& row) {
  return row.train->optimizer == OptimizerKind::adamw;
}

double corrected(double beta, const RowStep& row) {
  return 1 - std::pow(beta, static_cast<double>(row.step.number));
}

constexpr std::array<RowNumber, 8> kAdam = {
    [](const RowStep& row) { return decoupled(row) ? 0.0 : 1.0; },
    [](const RowStep& row) { return decoupled(row) ? -row.step.lr : 0; },
    [](const RowStep& row) { return row.train->beta1; },
    [](const RowStep& row) { return 1 - row.train->beta1; },
    [](const RowStep& row) { return row.train->beta2; },
    [](const RowStep& row) { return 1 - row.train->beta2; },
    [](const RowStep& row) {
      return 1 / std::sqrt(corrected(row.train->beta2, row));
    },
    [](const RowStep& row) {
      return -row.step.lr / corrected(row.train->beta1, row);
    }};

// A number of each row, [K, 1].
at::Tensor column(const at::Tensor& numbers, int64_t which) {
  return numbers[which].unsqueeze(1);
}

void fused_sgd(const at::Tensor& numbers, const FusedTensors& t) {
  const auto of = [&](int64_t i) { return column(numbers, at_rule + i); };
  t.gradients.addcmul_(t.l2, t.weights);
  t.first.mul_(of(0)).add_(t.gradients);
  t.weights.addcmul_(t.gradients, of(1)).addcmul_(t.first, of(2));
}

void fused_adam(const at::Tensor& numbers, const FusedTensors& t) {
  const auto of = [&](int64_t i) { return column(numbers, at_rule + i); };
  const at::Tensor decay = t.l2 * t.weights;
  t.gradients.addcmul_(decay, of(0));
  t.weights.addcmul_(decay, of(1));
  t.first.mul_(of(2)).addcmul_(t.gradients, of(3));
  t.second.mul_(of(4)).addcmul_(t.gradients.square(), of(5));
  const at::Tensor root = t.second.sqrt().mul_(of(6)).add_(kAdamEpsilon);
  t.weights.add_(t.first.div(root).mul_(of(7)));
}

}  // namespace

at::Tensor update_numbers(const std::vector<RowStep>& rows,
                          const at::Device& device) {
  const bool sgd = rows.front().train->optimizer == OptimizerKind::sgd;
  std::vector<RowNumber> numbers(kCommon.begin(), kCommon.end());
  const std::span<const RowNumber> own =
      sgd ? std::span<const RowNumber>(kSgd) : kAdam;
  numbers.insert(numbers.end(), own.begin(), own.end());
  const at::Tensor host = host_tensor(
      {static_cast<int64_t>(numbers.size()), static_cast<int64_t>(rows.size())},
      at::kFloat, device);
  auto* out = host.data_ptr<float>();
  for (const RowNumber number : numbers) {
    for (const RowStep& row : rows) {
      DTUNE_CHECK((row.train->optimizer == OptimizerKind::sgd) == sgd);
      *out++ = static_cast<float>(number(row));
    }
  }
  return host;
}

at::Tensor clip_rows(const at::Tensor& numbers, const at::Tensor& gradients) {
  const at::Tensor norms = gradients.norm(2, /*dim=*/{1}, /*keepdim=*/true);
  gradients.mul_(
      column(numbers, at_clip_norm).div(norms.add(kClipEpsilon)).clamp_max_(1));
  return norms.squeeze(1).to(at::kDouble);
}

void apply_fused_update(const at::Tensor& numbers,
                        const FusedTensors& tensors) {
  tensors.gradients.mul_(column(numbers, at_gradient_scale));
  if (tensors.second.defined()) {
    fused_adam(numbers, tensors);
  } else {
    fused_sgd(numbers, tensors);
  }
  tensors.gradients.zero_();
}

at::Tensor average_shares(const at::Tensor& numbers) {
  return column(numbers, at_average);
}

}  // namespace dtune
