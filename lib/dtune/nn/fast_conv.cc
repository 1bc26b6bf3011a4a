#include "dtune/nn/fast_conv.h"

#include <algorithm>
#include <vector>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/fuse.h"
#include "dtune/nn/kernels/product_conv.h"
#include "dtune/nn/kernels/winograd.h"
#include "dtune/nn/ranges.h"
#include "dtune/nn/workspace.h"

namespace dtune {
namespace {

const Parameter& declare_filters(const LayerSpec& spec, const Shape& input,
                                 ParameterPool& pool) {
  const int64_t taps = int64_t{spec.kernel} * spec.kernel;
  return pool.declare(spec.name + ".weight",
                      {spec.channels, input.channels, spec.kernel, spec.kernel},
                      true, Fill::he(taps * input.channels));
}

// The items in as few chunks as can be of at most so many, all alike.
int64_t even_chunk(int64_t items, int64_t most) {
  most = std::max<int64_t>(most, 1);
  const int64_t chunks = std::max<int64_t>((items + most - 1) / most, 1);
  return (items + chunks - 1) / chunks;
}

// Below 3x3 a tile has more products than the plain convolution.
bool is_winograd(const LayerSpec& layer, const Shape& input) {
  return layer.kernel == 3 && layer.stride == 1 &&
         effective_padding(layer) == 1 && input.height >= 3 && input.width >= 3;
}

class WinogradEngine : public ConvEngine {
 public:
  WinogradEngine(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : shape_{input.height, input.width, input.channels, spec.channels},
        weight_(declare_filters(spec, input, pool)),
        workspace_(pool.workspace) {}

  int64_t items(int64_t images) const override { return images; }
  int64_t chunk(int64_t items) const override {
    return even_chunk(items, winograd4_tiles(shape_) / shape_.tiles());
  }
  int best_pitch() const override { return shape_.outputs; }
  int64_t input_rows() const override {
    return int64_t{shape_.height} * shape_.width;
  }
  int64_t output_rows() const override { return input_rows(); }

  void prepare(bool backward, size_t workers) override {
    float* transformed =
        room_for(workspace_->transformed, shape_.transformed_size());
    kernels_.weights(shape_, weight_.value.data_ptr<float>(), backward,
                     transformed);
    if (workspace_->workers.size() < workers) {
      workspace_->workers.resize(workers);
    }
  }

  void forward(size_t worker, int64_t items, const float* x, const float* bias,
               float* y) override {
    const bool good = kernels_.forward(
        shape_, items, x, workspace_->transformed.data_ptr<float>(), bias,
        scratch_of(worker), y);
    if (!good) convolve_exactly(items, x, bias, y);
  }

  void backward(size_t worker, int64_t items, const float* x, const float* dy,
                int /*dy_pitch*/, bool fresh, float* dx) override {
    float* sums = room_for(workspace_->workers[worker].dtransformed,
                           shape_.transformed_size());
    kernels_.backward_weights(shape_, items, x, dy, fresh, scratch_of(worker),
                              sums);
    if (dx == nullptr) return;
    kernels_.forward(shape_.reversed(), items, dy,
                     workspace_->transformed.data_ptr<float>(), nullptr,
                     scratch_of(worker), dx);
  }

  void finish(size_t workers) override {
    for (size_t i = 0; i < workers; ++i) {
      kernels_.weights_gradient(
          shape_, workspace_->workers[i].dtransformed.data_ptr<float>(),
          weight_.gradient.data_ptr<float>());
    }
  }

 private:
  // Where the kernel may have spread an Inf.
  void convolve_exactly(int64_t items, const float* x, const float* bias,
                        float* y) const {
    const at::Tensor plain_bias =
        bias ? at::from_blob(const_cast<float*>(bias), {shape_.outputs})
             : at::Tensor();
    images_at(y, items, shape_.outputs)
        .copy_(dtune::convolve_exactly(images_at(x, items, shape_.channels),
                                       weight_.value, plain_bias));
  }

  at::Tensor images_at(const float* data, int64_t items, int channels) const {
    return at::from_blob(const_cast<float*>(data),
                         {items, shape_.height, shape_.width, channels})
        .permute({0, 3, 1, 2});
  }

  float* scratch_of(size_t worker) const {
    return room_for(workspace_->workers[worker].scratch,
                    std::max(winograd4_scratch(shape_),
                             winograd4_scratch(shape_.reversed())));
  }

  WinogradShape shape_;
  const WinogradKernels& kernels_ = winograd_kernels();
  const Parameter& weight_;
  std::shared_ptr<Workspace> workspace_;
};

// A 1x1 convolution of stride 1 sees a batch as images of one pixel.
ProductShape product_shape(const LayerSpec& spec, const Shape& input) {
  ProductShape shape{input.height,           input.width, input.channels,
                     spec.channels,          spec.kernel, spec.stride,
                     effective_padding(spec)};
  if (spec.kernel == 1 && spec.stride == 1 && shape.padding == 0) {
    shape.height = shape.width = 1;
  }
  return shape;
}

class ProductEngine : public ConvEngine {
 public:
  ProductEngine(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : shape_(product_shape(spec, input)),
        items_of_image_(shape_.height == 1 && shape_.width == 1
                            ? int64_t{input.height} * input.width
                            : 1),
        weight_(declare_filters(spec, input, pool)),
        workspace_(pool.workspace) {}

  int64_t items(int64_t images) const override {
    return images * items_of_image_;
  }
  int64_t chunk(int64_t items) const override {
    const int rows = product_rows_backward(shape_);
    return shape_.is_product() ? rows : even_chunk(items, rows / output_rows());
  }
  int best_pitch() const override { return product_pitch(shape_.outputs); }
  int64_t input_rows() const override {
    return int64_t{shape_.height} * shape_.width;
  }
  int64_t output_rows() const override { return shape_.pixels(); }

  void prepare(bool backward, size_t workers) override {
    float* transformed =
        room_for(workspace_->transformed, shape_.weights_size());
    kernels_.weights(shape_, weight_.value.data_ptr<float>(), backward,
                     transformed);
    if (workspace_->workers.size() < workers) {
      workspace_->workers.resize(workers);
    }
  }

  void forward(size_t worker, int64_t items, const float* x, const float* bias,
               float* y) override {
    kernels_.forward(shape_, items, x,
                     workspace_->transformed.data_ptr<float>(), bias,
                     scratch_of(worker), y);
  }

  void backward(size_t worker, int64_t items, const float* x, const float* dy,
                int dy_pitch, bool fresh, float* dx) override {
    float* sums = sums_of(worker);
    if (fresh && !adds_directly(worker)) {
      std::fill_n(sums, shape_.weights_size(), 0.0F);
    }
    kernels_.backward(shape_, items, x, dy, dy_pitch,
                      workspace_->transformed.data_ptr<float>(),
                      scratch_of(worker), sums, dx);
  }

  void finish(size_t workers) override {
    for (size_t i = 0; i < workers; ++i) {
      if (adds_directly(i)) continue;
      kernels_.weights_gradient(shape_, sums_of(i),
                                weight_.gradient.data_ptr<float>());
    }
  }

 private:
  // Sums of 1x1 filters are laid out as their gradient.
  bool adds_directly(size_t worker) const {
    return worker == 0 && shape_.taps() == 1;
  }

  float* sums_of(size_t worker) const {
    return adds_directly(worker)
               ? weight_.gradient.data_ptr<float>()
               : room_for(workspace_->workers[worker].dtransformed,
                          shape_.weights_size());
  }

  float* scratch_of(size_t worker) const {
    return room_for(workspace_->workers[worker].scratch,
                    product_scratch(shape_));
  }

  ProductShape shape_;
  int64_t items_of_image_;
  const ProductKernels& kernels_ = product_kernels();
  const Parameter& weight_;
  std::shared_ptr<Workspace> workspace_;
};

// The batch is split evenly over ATen's threads; for a given number of threads
// the result is the same to the last bit.
class FastConv : public Layer {
 public:
  FastConv(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : output_(infer_shapes({spec}, input).back().output),
        engine_(make_conv_engine(spec, input, pool)),
        bias_(spec.bias ? &pool.declare(spec.name + ".bias", {spec.channels},
                                        false, Fill::of(0))
                        : nullptr) {}

  at::Tensor forward(const at::Tensor& input, Saved* saved,
                     const PassContext&) override {
    const at::Tensor x = channels_last(input);
    if (saved) saved->tensors = {x};
    const at::Tensor y =
        at::empty({x.size(0), output_.channels, output_.height, output_.width},
                  at::kFloat, at::MemoryFormat::ChannelsLast);
    const float* bias = bias_ ? bias_->value.data_ptr<float>() : nullptr;
    const int64_t items = engine_->items(x.size(0));
    engine_->prepare(/*backward=*/false, range_count(items));
    for_each_range(items, [&](size_t worker, Range range) {
      engine_->forward(worker, range.size(),
                       x.data_ptr<float>() + range.begin * in_item(x), bias,
                       y.data_ptr<float>() + range.begin * out_item());
    });
    return y;
  }

  at::Tensor backward(const at::Tensor& gradient, Saved& saved,
                      bool need_dx) override {
    const at::Tensor dy = channels_last(gradient);
    const at::Tensor x = saved.tensors.at(0);
    saved.tensors.clear();
    const at::Tensor dx =
        need_dx ? at::empty_like(x, at::MemoryFormat::ChannelsLast)
                : at::Tensor();
    const int64_t items = engine_->items(x.size(0));
    engine_->prepare(/*backward=*/true, range_count(items));
    for_each_range(items, [&](size_t worker, Range range) {
      const int64_t from = range.begin * in_item(x);
      engine_->backward(worker, range.size(), x.data_ptr<float>() + from,
                        dy.data_ptr<float>() + range.begin * out_item(),
                        output_.channels, /*fresh=*/true,
                        need_dx ? dx.data_ptr<float>() + from : nullptr);
    });
    engine_->finish(range_count(items));
    if (bias_) bias_->gradient.add_(dy.sum({0, 2, 3}));
    return dx;
  }

 private:
  int64_t in_item(const at::Tensor& x) const {
    return engine_->input_rows() * x.size(1);
  }
  int64_t out_item() const { return engine_->output_rows() * output_.channels; }

  Shape output_;
  std::unique_ptr<ConvEngine> engine_;
  const Parameter* bias_;
};

}  // namespace

bool is_fast_conv(const LayerSpec& layer, const Shape& input) {
  return layer.kind == LayerKind::conv && !input.flat && layer.groups == 1 &&
         input.channels % 16 == 0 && layer.channels % 16 == 0;
}

std::unique_ptr<ConvEngine> make_conv_engine(const LayerSpec& spec,
                                             const Shape& input,
                                             ParameterPool& pool) {
  if (is_winograd(spec, input)) {
    return std::make_unique<WinogradEngine>(spec, input, pool);
  }
  return std::make_unique<ProductEngine>(spec, input, pool);
}

LayerPtr make_fast_conv(const LayerSpec& spec, const Shape& input,
                        ParameterPool& pool) {
  return std::make_unique<FastConv>(spec, input, pool);
}

}  // namespace dtune
