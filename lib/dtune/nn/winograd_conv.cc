#include <atomic>
#include <memory>
#include <vector>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/fuse.h"
#include "dtune/nn/kernels/winograd.h"
#include "dtune/nn/ranges.h"
#include "dtune/nn/workspace.h"

namespace dtune {
namespace {

// A convolution by the kernels of kernels/winograd.h. The batch is split evenly
// over ATen's threads; for a given number of threads the result is the same to
// the last bit.
class WinogradConv : public Layer {
 public:
  WinogradConv(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : shape_{input.height, input.width, input.channels, spec.channels},
        weight_(pool.declare(spec.name + ".weight",
                             {spec.channels, input.channels, 3, 3}, true,
                             Fill::he(int64_t{9} * input.channels))),
        bias_(spec.bias ? &pool.declare(spec.name + ".bias", {spec.channels},
                                        false, Fill::of(0))
                        : nullptr),
        workspace_(pool.workspace) {}

  at::Tensor forward(const at::Tensor& input, Saved* saved,
                     const PassContext&) override {
    const at::Tensor x = channels_last(input);
    if (saved) saved->tensors = {x};
    const at::Tensor y = images_like(x, shape_.outputs);
    const float* bias = bias_ ? bias_->value.data_ptr<float>() : nullptr;
    if (convolve(shape_, x, /*reversed=*/false, bias, y)) return y;
    return convolve_exactly(x, weight_, bias_);
  }

  at::Tensor backward(const at::Tensor& gradient, Saved& saved,
                      bool need_dx) override {
    const at::Tensor dy = channels_last(gradient);
    const at::Tensor x = saved.tensors.at(0);
    saved.tensors.clear();
    add_weight_gradient(x, dy);
    if (bias_) bias_->gradient.add_(dy.sum({0, 2, 3}));
    if (!need_dx) return {};
    const at::Tensor dx = images_like(x, shape_.channels);
    convolve(shape_.reversed(), dy, /*reversed=*/true, nullptr, dx);
    return dx;
  }

 private:
  static at::Tensor images_like(const at::Tensor& x, int64_t channels) {
    return at::empty({x.size(0), channels, x.size(2), x.size(3)}, at::kFloat,
                     at::MemoryFormat::ChannelsLast);
  }

  float* scratch_of(size_t worker, const WinogradShape& shape) const {
    return room_for(workspace_->workers[worker].scratch,
                    winograd4_scratch(shape));
  }

  // Returns false where an Inf may have spread further than it should.
  bool convolve(const WinogradShape& shape, const at::Tensor& x, bool reversed,
                const float* bias, const at::Tensor& y) const {
    float* transformed =
        room_for(workspace_->transformed, shape.transformed_size());
    kernels_.weights(shape_, weight_.value.data_ptr<float>(), reversed,
                     transformed);
    prepare_workers(x.size(0));
    std::atomic<bool> finite = true;
    for_each_range(x.size(0), [&](size_t worker, Range range) {
      const bool good = kernels_.forward(
          shape, range.size(),
          x.data_ptr<float>() + range.begin * shape.input_size(), transformed,
          bias, scratch_of(worker, shape),
          y.data_ptr<float>() + range.begin * shape.output_size());
      if (!good) finite = false;
    });
    return finite;
  }

  void add_weight_gradient(const at::Tensor& x, const at::Tensor& dy) const {
    prepare_workers(x.size(0));
    for_each_range(x.size(0), [&](size_t worker, Range range) {
      kernels_.backward_weights(
          shape_, range.size(),
          x.data_ptr<float>() + range.begin * shape_.input_size(),
          dy.data_ptr<float>() + range.begin * shape_.output_size(),
          scratch_of(worker, shape_),
          room_for(workspace_->workers[worker].dtransformed,
                   shape_.transformed_size()));
    });
    for (size_t i = 0; i < range_count(x.size(0)); ++i) {
      kernels_.weights_gradient(
          shape_, workspace_->workers[i].dtransformed.data_ptr<float>(),
          weight_.gradient.data_ptr<float>());
    }
  }

  void prepare_workers(int64_t images) const {
    const size_t count = range_count(images);
    if (workspace_->workers.size() < count) workspace_->workers.resize(count);
  }

  WinogradShape shape_;
  const WinogradKernels& kernels_ = winograd_kernels();
  const Parameter& weight_;
  const Parameter* bias_;
  std::shared_ptr<Workspace> workspace_;
};

}  // namespace

LayerPtr make_winograd_conv(const LayerSpec& spec, const Shape& input,
                            ParameterPool& pool) {
  return std::make_unique<WinogradConv>(spec, input, pool);
}

}  // namespace dtune
