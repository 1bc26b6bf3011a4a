#include "dtune/train/fused_update.h"

#include <array>
#include <span>

#ifdef DTUNE_WITH_CUDA_KERNELS
#include "dtune/nn/gpu_stream.h"
#endif

#include "dtune/base/error.h"
#include "dtune/nn/kernels/cuda/update.h"
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

#ifdef DTUNE_WITH_CUDA_KERNELS
bool in_one_kernel(const FusedTensors& t) {
  return t.weights.is_cuda() && t.weights.is_contiguous() &&
         t.gradients.is_contiguous();
}

float* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

// norms: [K, 1]; undefined: gradients are not clipped.
void update_in_one_kernel(const at::Tensor& numbers, const FusedTensors& t,
                          const at::Tensor& norms) {
  const OnDeviceOf here(t.weights);
  const auto row = [&](int64_t which) {
    return data_of(numbers) + which * numbers.size(1);
  };
  const CudaUpdateTensors tensors{t.weights.size(0),  t.weights.size(1),
                                  data_of(t.weights), data_of(t.gradients),
                                  data_of(t.first),   data_of(t.second),
                                  data_of(t.l2)};
  const CudaUpdateScale scale{row(at_gradient_scale),
                              norms.defined() ? row(at_clip_norm) : nullptr,
                              data_of(norms), static_cast<float>(kClipEpsilon)};
  const auto of = [&](int64_t i) { return row(at_rule + i); };
  if (t.second.defined()) {
    cuda_adam(tensors, scale,
              {of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7),
               static_cast<float>(kAdamEpsilon)},
              here.stream());
  } else {
    cuda_sgd(tensors, scale, {of(0), of(1), of(2)}, here.stream());
  }
}
#else
bool in_one_kernel(const FusedTensors&) { return false; }
void update_in_one_kernel(const at::Tensor&, const FusedTensors&,
                          const at::Tensor&) {}
#endif

void clip_rows(const at::Tensor& numbers, const at::Tensor& gradients,
               const at::Tensor& norms) {
  gradients.mul_(
      column(numbers, at_clip_norm).div(norms.add(kClipEpsilon)).clamp_max_(1));
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

at::Tensor clip_and_update(const at::Tensor& numbers,
                           const FusedTensors& tensors) {
  const at::Tensor norms =
      tensors.gradients.norm(2, /*dim=*/{1}, /*keepdim=*/true);
  if (in_one_kernel(tensors)) {
    update_in_one_kernel(numbers, tensors, norms);
  } else {
    clip_rows(numbers, tensors.gradients, norms);
    apply_fused_update(numbers, tensors);
  }
  return norms.squeeze(1).to(at::kDouble);
}

void apply_fused_update(const at::Tensor& numbers,
                        const FusedTensors& tensors) {
  if (in_one_kernel(tensors)) {
    return update_in_one_kernel(numbers, tensors, {});
  }
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
