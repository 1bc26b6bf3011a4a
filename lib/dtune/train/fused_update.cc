#include "dtune/train/fused_update.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "dtune/nn/transfer.h"

namespace dtune {
namespace {

using Number = std::function<double(const TrainSpec&, const UpdateStep&)>;

// One transfer for all that the rows differ in.
class Columns {
 public:
  Columns(const std::vector<const TrainSpec*>& trains,
          const std::vector<UpdateStep>& steps,
          const std::vector<Number>& numbers, const at::Device& device) {
    const auto rows = static_cast<int64_t>(trains.size());
    const at::Tensor table = host_tensor(
        {static_cast<int64_t>(numbers.size()), rows}, at::kFloat, device);
    auto* out = table.data_ptr<float>();
    for (const Number& number : numbers) {
      for (size_t k = 0; k < trains.size(); ++k) {
        *out++ = static_cast<float>(number(*trains[k], steps[k]));
      }
    }
    table_ = send(table, device).unsqueeze(2);
  }

  at::Tensor operator[](int64_t number) const { return table_[number]; }

 private:
  at::Tensor table_;  // [numbers, K, 1]
};

void fused_sgd(const std::vector<const TrainSpec*>& trains,
               const std::vector<UpdateStep>& steps, const FusedTensors& t) {
  // The step is own * gradient + carried * velocity, as in update_rule.cc.
  const Columns of(
      trains, steps,
      {[](const TrainSpec&, const UpdateStep& s) { return s.gradient_scale; },
       [](const TrainSpec& train, const UpdateStep&) { return train.momentum; },
       [](const TrainSpec& train, const UpdateStep& s) {
         return train.nesterov ? -s.lr : 0;
       },
       [](const TrainSpec& train, const UpdateStep& s) {
         return -s.lr * (train.nesterov ? train.momentum : 1);
       }},
      t.weights.device());
  t.gradients.mul_(of[0]).addcmul_(t.l2, t.weights);
  t.first.mul_(of[1]).add_(t.gradients);
  t.weights.addcmul_(t.gradients, of[2]).addcmul_(t.first, of[3]);
}

void fused_adam(const std::vector<const TrainSpec*>& trains,
                const std::vector<UpdateStep>& steps, const FusedTensors& t) {
  const auto decoupled = [](const TrainSpec& train) {
    return train.optimizer == OptimizerKind::adamw;
  };
  const auto corrected = [](double beta, const UpdateStep& s) {
    return 1 - std::pow(beta, static_cast<double>(s.number));
  };
  const Columns of(
      trains, steps,
      {[](const TrainSpec&, const UpdateStep& s) { return s.gradient_scale; },
       [&](const TrainSpec& train, const UpdateStep&) {
         return decoupled(train) ? 0 : 1;
       },
       [&](const TrainSpec& train, const UpdateStep& s) {
         return decoupled(train) ? -s.lr : 0;
       },
       [](const TrainSpec& train, const UpdateStep&) { return train.beta1; },
       [](const TrainSpec& train, const UpdateStep&) {
         return 1 - train.beta1;
       },
       [](const TrainSpec& train, const UpdateStep&) { return train.beta2; },
       [](const TrainSpec& train, const UpdateStep&) {
         return 1 - train.beta2;
       },
       [&](const TrainSpec& train, const UpdateStep& s) {
         return 1 / std::sqrt(corrected(train.beta2, s));
       },
       [&](const TrainSpec& train, const UpdateStep& s) {
         return -s.lr / corrected(train.beta1, s);
       }},
      t.weights.device());
  const at::Tensor decay = t.l2 * t.weights;
  t.gradients.mul_(of[0]).addcmul_(decay, of[1]);
  t.weights.addcmul_(decay, of[2]);
  t.first.mul_(of[3]).addcmul_(t.gradients, of[4]);
  t.second.mul_(of[5]).addcmul_(t.gradients.square(), of[6]);
  const at::Tensor root = t.second.sqrt().mul_(of[7]).add_(kAdamEpsilon);
  t.weights.add_(t.first.div(root).mul_(of[8]));
}

}  // namespace

at::Tensor column(const std::vector<double>& values, const at::Device& device) {
  const at::Tensor host =
      host_tensor({static_cast<int64_t>(values.size()), 1}, at::kFloat, device);
  std::ranges::transform(values, host.data_ptr<float>(), [](double value) {
    return static_cast<float>(value);
  });
  return send(host, device);
}

void apply_fused_update(const std::vector<const TrainSpec*>& trains,
                        const std::vector<UpdateStep>& steps,
                        const FusedTensors& tensors) {
  if (trains.front()->optimizer == OptimizerKind::sgd) {
    fused_sgd(trains, steps, tensors);
  } else {
    fused_adam(trains, steps, tensors);
  }
}

}  // namespace dtune
