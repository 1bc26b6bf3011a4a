#include "dtune/nn/kernels/pool.h"

#include <array>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/gpu_pool.h"
#include "dtune/nn/layer.h"
#include "dtune/nn/ranges.h"

namespace dtune {
namespace {

struct Window {
  explicit Window(const LayerSpec& spec)
      : kernel{spec.kernel, spec.kernel},
        stride{spec.stride, spec.stride},
        padding{effective_padding(spec), effective_padding(spec)} {}

  std::array<int64_t, 2> kernel;
  std::array<int64_t, 2> stride;
  std::array<int64_t, 2> padding;
};

class MaxPool : public Layer {
 public:
  explicit MaxPool(const LayerSpec& spec) : window_(spec) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    if (is_gpu_pool(x, window_.kernel[0], window_.stride[0],
                    window_.padding[0])) {
      const auto [y, which] = gpu_max_pool(x, window_.kernel[0]);
      if (saved) {
        saved->tensors = {which};
        saved->input_shape = x.sizes().vec();
      }
      return y;
    }
    auto [y, indices] = at::max_pool2d_with_indices(
        x, window_.kernel, window_.stride, window_.padding);
    if (saved) saved->tensors = {x, indices};
    return y;
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    at::Tensor dx;
    if (need_dx) dx = gradient(dy, saved);
    saved.tensors.clear();
    return dx;
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, const Saved& saved) const {
    if (saved.tensors.size() == 1) {
      return gpu_max_pool_gradient(dy, saved.tensors[0], saved.input_shape,
                                   window_.kernel[0]);
    }
    return at::max_pool2d_with_indices_backward(
        dy, saved.tensors.at(0), window_.kernel, window_.stride,
        window_.padding, {1, 1}, false, saved.tensors.at(1));
  }

  Window window_;
};

// Padding counts as zeros in the mean.
class AvgPool : public Layer {
 public:
  explicit AvgPool(const LayerSpec& spec)
      : window_(spec),
        apart_(spec.kernel == spec.stride && effective_padding(spec) == 0) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    if (saved) saved->tensors = {x};
    if (!is_fast(x)) {
      return at::avg_pool2d(x, window_.kernel, window_.stride, window_.padding);
    }
    const PoolShape shape = shape_of(x);
    at::Tensor y = at::empty({x.size(0), x.size(1), x.size(2) / shape.window,
                              x.size(3) / shape.window},
                             at::kFloat, at::MemoryFormat::ChannelsLast);
    for_each_image(x, y, [&](Range images, const float* from, float* to) {
      pool_kernels().mean(shape, images.size(), from, to);
    });
    return y;
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const at::Tensor x = saved.tensors.at(0);
    saved.tensors.clear();
    if (!need_dx) return {};
    if (!is_fast(x)) {
      return at::avg_pool2d_backward(dy, x, window_.kernel, window_.stride,
                                     window_.padding, false, true, {});
    }
    const PoolShape shape = shape_of(x);
    at::Tensor dx = at::empty_like(x, at::MemoryFormat::ChannelsLast);
    for_each_image(channels_last(dy), dx,
                   [&](Range images, const float* from, float* to) {
                     pool_kernels().spread(shape, images.size(), from, to);
                   });
    return dx;
  }

 private:
  // Whether pool_kernels() computes it.
  bool is_fast(const at::Tensor& x) const {
    return apart_ && x.is_cpu() && x.scalar_type() == at::kFloat &&
           x.size(2) % window_.kernel[0] == 0 &&
           x.size(3) % window_.kernel[0] == 0 &&
           x.is_contiguous(at::MemoryFormat::ChannelsLast);
  }

  PoolShape shape_of(const at::Tensor& x) const {
    return {static_cast<int>(x.size(2)), static_cast<int>(x.size(3)),
            static_cast<int>(x.size(1)), static_cast<int>(window_.kernel[0])};
  }

  template <typename Work>
  static void for_each_image(const at::Tensor& from, const at::Tensor& to,
                             const Work& work) {
    const int64_t images = from.size(0);
    if (images == 0) return;
    const int64_t in = from.numel() / images;
    const int64_t out = to.numel() / images;
    for_each_range(images, [&](size_t, Range range) {
      work(range, from.data_ptr<float>() + range.begin * in,
           to.data_ptr<float>() + range.begin * out);
    });
  }

  Window window_;
  bool apart_;  // windows neither overlap nor hang over an edge
};

// [N, C, H, W] -> [N, C].
class GlobalAvgPool : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    if (saved) saved->input_shape = x.sizes().vec();
    return x.mean({2, 3});
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    if (!need_dx) return {};
    const std::vector<int64_t>& shape = saved.input_shape;
    const auto area = static_cast<double>(shape[2] * shape[3]);
    return (dy / area)
        .view({shape[0], shape[1], 1, 1})
        .expand(shape)
        .contiguous(at::MemoryFormat::ChannelsLast);
  }
};

// [N, C, H, W] -> [N, C H W], in that order whatever the layout in memory.
class Flatten : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    if (saved) saved->input_shape = x.sizes().vec();
    return x.flatten(1);
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    if (!need_dx) return {};
    return channels_last(dy.view(saved.input_shape));
  }
};

}  // namespace

LayerPtr make_max_pool(const LayerSpec& spec) {
  return std::make_unique<MaxPool>(spec);
}

LayerPtr make_avg_pool(const LayerSpec& spec) {
  return std::make_unique<AvgPool>(spec);
}

LayerPtr make_global_avg_pool() { return std::make_unique<GlobalAvgPool>(); }

LayerPtr make_flatten() { return std::make_unique<Flatten>(); }

}  // namespace dtune
