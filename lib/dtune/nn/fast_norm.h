// Batch norm with what surrounds it, on the CPU.
#pragma once

#include <vector>

#include "dtune/nn/kernels/batch_norm.h"
#include "dtune/nn/layer.h"

namespace dtune {

inline constexpr double kNormEpsilon = 1e-5;
// running += 0.1 (batch - running)
inline constexpr double kNormMomentum = 0.1;

// Two sums over pixels for each channel.
struct NormSums {
  explicit NormSums(int64_t channels)
      : first(static_cast<size_t>(channels)), second(first) {}
  // EndNorm::sums and back.
  explicit NormSums(const at::Tensor& values);
  at::Tensor values() const;
  void add(const NormSums& other);

  std::vector<double> first;
  std::vector<double> second;
};

// Mean and variance of pixels that come in parts. They are summed up after a
// shift that the first part gives: without it the variance would be a
// difference of large numbers.
class PixelStatistics {
 public:
  explicit PixelStatistics(int64_t channels) : sums_(channels) {}
  // x: part.rows pixels.
  void add(const NormRows& part, const float* x);
  // The statistics of both.
  void merge(const PixelStatistics& other);

  int64_t rows() const { return rows_; }
  double mean(size_t channel) const;
  double variance(size_t channel) const;  // of the population

 private:
  int64_t rows_ = 0;
  std::vector<float> shift_;
  NormSums sums_;  // of x - shift, and its squares
};

// How a pass normalises, of each channel: y = x scale + offset.
struct NormMap {
  at::Tensor values;  // [4, C]: mean, deviation, scale, offset

  const float* mean() const { return row(0); }
  const float* deviation() const { return row(1); }  // its inverse
  const float* scale() const { return row(2); }
  const float* offset() const { return row(3); }

 private:
  const float* row(int64_t i) const {
    return values.data_ptr<float>() + i * values.size(1);
  }
};

// The same of its gradient: dx = dy scale + x slope + offset.
struct NormGradientMap {
  std::vector<float> scale;
  std::vector<float> slope;
  std::vector<float> offset;
};

// What a batch norm declares of its channels; references into the pool. What is
// said of BatchNorm in norm.cc holds.
struct NormParameters {
  NormParameters(const LayerSpec& spec, const Shape& input,
                 ParameterPool& pool);

  // By the batch's statistics, which move the running ones unless the pass is
  // repeated.
  NormMap map_of_batch(const PixelStatistics& batch,
                       const PassContext& context) const;
  NormMap map_of_running() const;
  // sums: of dy and of dy (x - mean) over `rows` pixels. Adds to the gradients
  // of weight and bias. `training`: the map was one of the batch.
  NormGradientMap add_gradient(const NormMap& map, const NormSums& sums,
                               int64_t rows, bool training) const;

  const Parameter& weight;
  const Parameter& bias;
  const at::Tensor& mean;  // running
  const at::Tensor& variance;

 private:
  template <typename Mean, typename Variance>
  NormMap make_map(const Mean& mean_of, const Variance& variance_of) const;
};

// What backward_sum sets.
struct AddendGradient {
  // Of the addend. Where it is a tensor before, it is overwritten: it may be dy
  // itself.
  at::Tensor values;
  // The addend is the layer's input: its gradient is added to what backward_sum
  // returns, in `values`.
  bool of_input = false;
};

// What backward_sum makes of the gradient of the layer's input.
struct InputGradient {
  bool need_dx = true;
  GradientTarget target{};  // without need_dx: none
};

// A layer to whose result another one is added before a ReLU.
class SumLayer : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext& context) override {
    return forward_sum(x, {}, saved, context);
  }
  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    return backward_sum(dy, saved, {.need_dx = need_dx}, nullptr);
  }
  at::Tensor backward_to(const at::Tensor& dy, Saved& saved,
                         const GradientTarget& target) override {
    return backward_sum(dy, saved, {.target = target}, nullptr);
  }

  // addend: shaped as the result (undefined: none); with one, backward_sum sets
  // its gradient.
  virtual at::Tensor forward_sum(const at::Tensor& input,
                                 const at::Tensor& addend, Saved* saved,
                                 const PassContext& context) = 0;
  virtual at::Tensor backward_sum(const at::Tensor& gradient, Saved& saved,
                                  const InputGradient& input,
                                  AddendGradient* addend) = 0;
};

// y = relu(batch_norm(x) + addend) by the kernels of kernels/batch_norm.h; ReLU
// and addend are optional.
class FastNorm : public SumLayer {
 public:
  FastNorm(const LayerSpec& spec, const Shape& input, ParameterPool& pool,
           bool relu)
      : relu_(relu), own_(spec, input, pool) {}

  at::Tensor forward_sum(const at::Tensor& input, const at::Tensor& addend,
                         Saved* saved, const PassContext& context) override;
  at::Tensor backward_sum(const at::Tensor& gradient, Saved& saved,
                          const InputGradient& input,
                          AddendGradient* addend) override;
  EndNorm end_norm(Saved& saved) override;

 private:
  bool relu_;
  NormParameters own_;
};

// ---- The passes over whole tensors, which are channels-last. ----

NormRows norm_rows(const at::Tensor& x, bool relu);
// relu(x scale + offset + addend); an addend may be undefined.
at::Tensor normalise(const at::Tensor& x, const NormMap& map, bool relu,
                     const at::Tensor& addend);

// The gradient of what a norm, with its ReLU, returned.
struct ResultGradient {
  at::Tensor values;
  at::Tensor y;   // with relu: what came out
  bool relu;      // values count only where y is not <= 0
  NormSums sums;  // for add_gradient
};
// Of dy. y: with ReLU, what came out. made: undefined, or EndNorm::sums, which
// are used up. addend: null, or its values become dy where it counts.
ResultGradient result_gradient(const at::Tensor& dy, const at::Tensor& x,
                               const at::Tensor& y, const NormMap& map,
                               bool relu, at::Tensor& made,
                               AddendGradient* addend);

}  // namespace dtune
