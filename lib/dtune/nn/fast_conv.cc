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

// What both kinds have: weights, each worker's memory, and what is done where
// the kernel may have spread an Inf.
class KernelEngine : public ConvEngine {
 public:
  // item: what a worker's part of the batch consists of.
  KernelEngine(const LayerSpec& spec, const Shape& input, const Shape& item,
               ParameterPool& pool)
      : weight_(declare_filters(spec, input, pool)),
        workspace_(pool.workspace),
        spec_(spec),
        item_(item),
        output_(infer_shapes({spec}, item).back().output) {}

  int64_t input_rows() const override {
    return int64_t{item_.height} * item_.width;
  }
  int64_t output_rows() const override {
    return int64_t{output_.height} * output_.width;
  }

 protected:
  // Room for transformed weights; for each worker, for what it works on and for
  // the sums of the weights' gradient.
  float* make_room(size_t workers, int64_t transformed) {
    if (workspace_->workers.size() < workers) {
      workspace_->workers.resize(workers);
    }
    return room_for(workspace_->transformed, transformed);
  }
  const float* transformed() const {
    return workspace_->transformed.data_ptr<float>();
  }
  float* scratch_of(size_t worker, int64_t floats) const {
    return room_for(workspace_->workers[worker].scratch, floats);
  }
  float* sums_of(size_t worker, int64_t floats) const {
    return room_for(workspace_->workers[worker].dtransformed, floats);
  }

  void convolve_exactly(int64_t items, const float* x, const float* bias,
                        float* y) const {
    const at::Tensor plain_bias =
        bias ? at::from_blob(const_cast<float*>(bias), {output_.channels})
             : at::Tensor();
    images_at(y, items, output_)
        .copy_(dtune::convolve_exactly(images_at(x, items, item_),
                                       weight_.value, plain_bias, spec_.stride,
                                       effective_padding(spec_)));
  }

  const Parameter& weight_;

 private:
  static at::Tensor images_at(const float* data, int64_t items,
                              const Shape& shape) {
    return at::from_blob(const_cast<float*>(data),
                         {items, shape.height, shape.width, shape.channels})
        .permute({0, 3, 1, 2});
  }

  std::shared_ptr<Workspace> workspace_;
  LayerSpec spec_;
  Shape item_;
  Shape output_;
};

class WinogradEngine : public KernelEngine {
 public:
  WinogradEngine(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : KernelEngine(spec, input, input, pool),
        shape_{input.height, input.width, input.channels, spec.channels} {}

  int64_t items(int64_t images) const override { return images; }
  int64_t chunk(int64_t items) const override {
    return even_chunk(items, winograd4_tiles(shape_) / shape_.tiles());
  }
  int best_pitch() const override { return shape_.outputs; }

  void prepare(bool backward, int64_t items, size_t workers) override {
    const auto most = static_cast<int64_t>(std::max<size_t>(workers, 1));
    const int64_t share = (items + most - 1) / most;
    once_ = share * shape_.tiles() <= winograd4_tiles(shape_);
    float* const room =
        make_room(workers, once_ ? 0 : shape_.transformed_size());
    if (!once_) kernels_.weights(shape_, weights(), backward, room);
  }

  void forward(size_t worker, int64_t items, const float* x, const float* bias,
               float* y) override {
    const bool good = once_ ? kernels_.forward_once(shape_, items, x, weights(),
                                                    /*reversed=*/false, bias,
                                                    scratch(worker), y)
                            : kernels_.forward(shape_, items, x, transformed(),
                                               bias, scratch(worker), y);
    if (!good) convolve_exactly(items, x, bias, y);
  }

  void backward(size_t worker, int64_t items, const float* x, const float* dy,
                int /*dy_pitch*/, bool fresh, float* dx) override {
    float* const to = sums(worker);
    if (once_) {
      if (worker > 0 && fresh) std::fill_n(to, weight_.value.numel(), 0.0F);
      kernels_.gradient_once(shape_, items, x, dy, scratch(worker), to);
      if (dx == nullptr) return;
      kernels_.forward_once(shape_.reversed(), items, dy, weights(),
                            /*reversed=*/true, nullptr, scratch(worker), dx);
      return;
    }
    kernels_.backward_weights(shape_, items, x, dy, fresh, scratch(worker), to);
    if (dx == nullptr) return;
    kernels_.forward(shape_.reversed(), items, dy, transformed(), nullptr,
                     scratch(worker), dx);
  }

  void finish(size_t workers) override {
    float* const gradient = weight_.gradient.data_ptr<float>();
    for (size_t i = 0; i < workers; ++i) {
      if (!once_) {
        kernels_.weights_gradient(shape_, sums(i), gradient);
      } else if (i > 0) {
        const float* from = sums(i);
        for (int64_t k = 0; k < weight_.value.numel(); ++k) {
          gradient[k] += from[k];
        }
      }
    }
  }

 private:
  const float* weights() const { return weight_.value.data_ptr<float>(); }
  float* scratch(size_t worker) const {
    return scratch_of(worker, std::max(winograd4_scratch(shape_),
                                       winograd4_scratch(shape_.reversed())));
  }
  // The first worker's are the gradient itself where they are laid out as it.
  float* sums(size_t worker) const {
    if (once_ && worker == 0) return weight_.gradient.data_ptr<float>();
    return sums_of(worker,
                   once_ ? weight_.value.numel() : shape_.transformed_size());
  }

  // All that a worker has to do is worked on together.
  bool once_ = false;
  WinogradShape shape_;
  const WinogradKernels& kernels_ = winograd_kernels();
};

// A 1x1 convolution of stride 1 sees a batch as images of one pixel.
Shape product_item(const LayerSpec& spec, Shape input) {
  if (spec.kernel == 1 && spec.stride == 1 && effective_padding(spec) == 0) {
    input.height = input.width = 1;
  }
  return input;
}

class ProductEngine : public KernelEngine {
 public:
  ProductEngine(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : KernelEngine(spec, input, product_item(spec, input), pool),
        shape_{product_item(spec, input).height,
               product_item(spec, input).width,
               input.channels,
               spec.channels,
               spec.kernel,
               spec.stride,
               effective_padding(spec)},
        items_of_image_(int64_t{input.height} * input.width / input_rows()) {}

  int64_t items(int64_t images) const override {
    return images * items_of_image_;
  }
  int64_t chunk(int64_t items) const override {
    return shape_.is_product() ? even_product_rows(items, rows_)
                               : even_chunk(items, rows_ / output_rows());
  }
  int best_pitch() const override { return product_pitch(shape_.outputs); }

  void prepare(bool backward, int64_t items, size_t workers) override {
    rows_ = backward ? kProductRowsBackward : kProductRowsForward;
    shape_.strassen = product_by_quarters(shape_, items * output_rows());
    kernels_.weights(shape_, weight_.value.data_ptr<float>(), backward,
                     make_room(workers, shape_.transformed_size()));
  }

  void forward(size_t worker, int64_t items, const float* x, const float* bias,
               float* y) override {
    const bool good = kernels_.forward(shape_, items, x, transformed(), bias,
                                       scratch(worker), y);
    if (!good) convolve_exactly(items, x, bias, y);
  }

  void backward(size_t worker, int64_t items, const float* x, const float* dy,
                int dy_pitch, bool fresh, float* dx) override {
    kernels_.backward(shape_, items, x, dy, dy_pitch, transformed(),
                      fresh && !adds_directly(worker), scratch(worker),
                      sums(worker), dx);
  }

  void finish(size_t workers) override {
    for (size_t i = 0; i < workers; ++i) {
      if (adds_directly(i)) continue;
      kernels_.weights_gradient(shape_, sums(i),
                                weight_.gradient.data_ptr<float>());
    }
  }

 private:
  // Sums of 1x1 filters may be laid out as their gradient.
  bool adds_directly(size_t worker) const {
    return worker == 0 && shape_.taps() == 1 && !shape_.strassen;
  }
  float* scratch(size_t worker) const {
    return scratch_of(worker, product_scratch(shape_));
  }
  float* sums(size_t worker) const {
    return adds_directly(worker) ? weight_.gradient.data_ptr<float>()
                                 : sums_of(worker, shape_.dtransformed_size());
  }

  ProductShape shape_;
  int64_t items_of_image_;
  int rows_ = kProductRowsForward;  // of a chunk
  const ProductKernels& kernels_ = product_kernels();
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
    engine_->prepare(/*backward=*/false, items, range_count(items));
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
    engine_->prepare(/*backward=*/true, items, range_count(items));
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
