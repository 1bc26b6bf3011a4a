#include "dtune/nn/gpu_norm.h"

#include "dtune/nn/channels_last.h"
#include "dtune/nn/kernels/cuda/norm.h"
#ifdef DTUNE_WITH_CUDA_KERNELS
#include "dtune/nn/gpu_stream.h"
#endif

namespace dtune {

#ifdef DTUNE_WITH_CUDA_KERNELS
namespace {

CudaNormShape shape_of(const at::Tensor& x) {
  return {x.numel() / x.size(1), static_cast<int>(x.size(1)),
          x.scalar_type() == at::kBFloat16};
}

at::Tensor floats_like(const at::Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options()
                              .dtype(at::kFloat)
                              .memory_format(at::MemoryFormat::Contiguous));
}

float* floats(const at::Tensor& tensor) { return tensor.data_ptr<float>(); }

// Null where there is none.
void* data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

class GpuNorm final : public SumLayer {
 public:
  GpuNorm(const LayerSpec& spec, const Shape& input, ParameterPool& pool,
          bool relu)
      : relu_(relu), own_(spec, input, pool) {}

  at::Tensor forward_sum(const at::Tensor& input, const at::Tensor& addend,
                         Saved* saved, const PassContext& context) override {
    const at::Tensor x = channels_last(input);
    const at::Tensor plus =
        addend.defined() ? channels_last(addend) : at::Tensor();
    const OnDeviceOf here(x);
    const at::Tensor map = floats_like(x, {4, x.size(1)});
    if (context.training) {
      const at::Tensor sums = scratch_sums(x);
      cuda_norm_batch_map(shape_of(x), x.data_ptr(), weights(!context.repeated),
                          kNormMomentum, kNormEpsilon, scratch(x, sums),
                          floats(map), here.stream());
    } else {
      cuda_norm_running_map(shape_of(x), weights(true), kNormEpsilon,
                            floats(map), here.stream());
    }
    const at::Tensor y = at::empty_like(x, at::MemoryFormat::ChannelsLast);
    cuda_norm_apply(shape_of(x), x.data_ptr(), floats(map), data(plus), relu_,
                    y.data_ptr(), here.stream());
    if (saved) {
      saved->tensors = {x, map};
      // Without an addend the result is computed again.
      if (relu_ && plus.defined()) saved->tensors.push_back(y);
      saved->training = context.training;
    }
    return y;
  }

  at::Tensor backward_sum(const at::Tensor& result, Saved& saved,
                          const InputGradient& input,
                          AddendGradient* addend) override {
    at::Tensor dy = channels_last(result);
    const at::Tensor x = saved.tensors.at(0);
    const at::Tensor map = saved.tensors.at(1);
    const at::Tensor y =
        saved.tensors.size() > 2 ? saved.tensors[2] : at::Tensor();
    saved.tensors.clear();
    const OnDeviceOf here(x);
    CudaNormGradient gradient{dy.data_ptr(), relu_, data(y)};
    at::Tensor masked;
    if (addend != nullptr && !relu_) addend->values = dy;
    if (addend != nullptr && relu_) {
      masked = addend->values.defined()
                   ? addend->values
                   : at::empty_like(x, at::MemoryFormat::ChannelsLast);
      addend->values = masked;
    }
    const at::Tensor gradient_map = floats_like(x, {3, x.size(1)});
    const at::Tensor sums = scratch_sums(x);
    cuda_norm_gradient_map(shape_of(x), gradient, x.data_ptr(), floats(map),
                           weights(false), saved.training, scratch(x, sums),
                           data(masked), floats(gradient_map), here.stream());
    if (!input.need_dx) return {};
    if (masked.defined()) gradient = {.dy = masked.data_ptr()};
    return input_gradient(gradient, x, map, gradient_map, input.target.onto,
                          addend);
  }

 private:
  at::Tensor input_gradient(const CudaNormGradient& gradient,
                            const at::Tensor& x, const at::Tensor& map,
                            const at::Tensor& gradient_map,
                            const at::Tensor& onto,
                            const AddendGradient* addend) const {
    const OnDeviceOf here(x);
    const bool of_input = addend != nullptr && addend->of_input;
    const bool in_place = onto.defined() && !of_input;
    const at::Tensor dx =
        in_place ? onto : at::empty_like(x, at::MemoryFormat::ChannelsLast);
    const at::Tensor plus =
        of_input ? addend->values : (in_place ? onto : at::Tensor());
    cuda_norm_input_gradient(shape_of(x), gradient, x.data_ptr(), floats(map),
                             floats(gradient_map), data(plus), dx.data_ptr(),
                             here.stream());
    return onto.defined() && !in_place ? at::Tensor(onto).add_(dx) : dx;
  }

  CudaNormWeights weights(bool with_running) const {
    return {floats(own_.weight.value),
            floats(own_.bias.value),
            with_running ? floats(own_.mean) : nullptr,
            with_running ? floats(own_.variance) : nullptr,
            floats(own_.weight.gradient),
            floats(own_.bias.gradient)};
  }

  static at::Tensor scratch_sums(const at::Tensor& x) {
    return floats_like(x, {cuda_norm_sums(shape_of(x))});
  }

  CudaNormScratch scratch(const at::Tensor& x, const at::Tensor& sums) {
    if (!counters_.defined()) {
      counters_ = at::zeros({cuda_norm_counters(shape_of(x))},
                            at::TensorOptions(at::kInt).device(x.device()));
    }
    return {floats(sums),
            reinterpret_cast<unsigned*>(counters_.data_ptr<int>())};
  }

  bool relu_;
  NormParameters own_;
  at::Tensor counters_;  // zeros
};

}  // namespace

bool has_gpu_norm() { return true; }

std::unique_ptr<SumLayer> make_gpu_norm(const LayerSpec& spec,
                                        const Shape& input, ParameterPool& pool,
                                        bool relu) {
  return std::make_unique<GpuNorm>(spec, input, pool, relu);
}

#else

bool has_gpu_norm() { return false; }

std::unique_ptr<SumLayer> make_gpu_norm(const LayerSpec&, const Shape&,
                                        ParameterPool&, bool) {
  throw Error(ErrorKind::internal, "nn: a build without kernels for CUDA");
}

#endif

}  // namespace dtune
