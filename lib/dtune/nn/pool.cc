#include <array>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/layer.h"

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
    auto [y, indices] = at::max_pool2d_with_indices(
        x, window_.kernel, window_.stride, window_.padding);
    if (saved) saved->tensors = {x, indices};
    return y;
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    at::Tensor dx;
    if (need_dx) {
      dx = at::max_pool2d_with_indices_backward(
          dy, saved.tensors.at(0), window_.kernel, window_.stride,
          window_.padding, {1, 1}, false, saved.tensors.at(1));
    }
    saved.tensors.clear();
    return dx;
  }

 private:
  Window window_;
};

// Padding counts as zeros in the mean.
class AvgPool : public Layer {
 public:
  explicit AvgPool(const LayerSpec& spec) : window_(spec) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    if (saved) saved->tensors = {x};
    return at::avg_pool2d(x, window_.kernel, window_.stride, window_.padding);
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    at::Tensor dx;
    if (need_dx) {
      dx = at::avg_pool2d_backward(dy, saved.tensors.at(0), window_.kernel,
                                   window_.stride, window_.padding, false, true,
                                   {});
    }
    saved.tensors.clear();
    return dx;
  }

 private:
  Window window_;
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
