// Batch norm with what surrounds it, on the CPU.
#pragma once

#include <vector>

#include "dtune/nn/layer.h"

namespace dtune {

inline constexpr double kNormEpsilon = 1e-5;
// running += 0.1 (batch - running)
inline constexpr double kNormMomentum = 0.1;

// What a batch norm declares of its channels; references into the pool.
struct NormParameters {
  NormParameters(const LayerSpec& spec, const Shape& input,
                 ParameterPool& pool);

  const Parameter& weight;
  const Parameter& bias;
  const at::Tensor& mean;  // running
  const at::Tensor& variance;
};

// y = relu(batch_norm(x) + addend) by the kernels of kernels/batch_norm.h; ReLU
// and addend are optional. What is said of BatchNorm in norm.cc holds.
class FastNorm : public Layer {
 public:
  FastNorm(const LayerSpec& spec, const Shape& input, ParameterPool& pool,
           bool relu)
      : relu_(relu), own_(spec, input, pool) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext& context) override;
  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override;

  // The same with an addend shaped as the input (undefined: none), whose
  // gradient backward_sum sets where it is asked for.
  at::Tensor forward_sum(const at::Tensor& input, const at::Tensor& addend,
                         Saved* saved, const PassContext& context);
  at::Tensor backward_sum(const at::Tensor& gradient, Saved& saved,
                          bool need_dx, at::Tensor* daddend);

 private:
  // Of each channel.
  struct Statistics {
    std::vector<float> mean;
    std::vector<float> variance;
  };
  Statistics running() const;
  Statistics of_batch(const at::Tensor& x) const;
  void move_running(const Statistics& batch, int64_t rows);

  bool relu_;
  NormParameters own_;
};

}  // namespace dtune
