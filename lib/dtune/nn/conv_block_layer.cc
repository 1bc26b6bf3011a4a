#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "dtune/nn/buffer.h"
#include "dtune/nn/channels_last.h"
#include "dtune/nn/fuse.h"
#include "dtune/nn/kernels/conv_block.h"
#include "dtune/nn/ranges.h"

namespace dtune {
namespace {

// What one thread needs besides the tensors; kept between passes.
struct Worker {
  at::Tensor padded;   // a zero frame around each image of a group
  at::Tensor dpadded;  // likewise for the input's gradient
  at::Tensor scratch;
  at::Tensor dtaps;
  std::vector<float> dbias;
  std::vector<Active> actives;
  std::vector<int> counts;
};

// max_pool_2x2(relu(conv_3x3(x))) by the kernels of kernels/conv_block.h. The
// batch is split evenly over ATen's threads; for a given number of threads the
// result is the same to the last bit.
class ConvBlock : public Layer {
 public:
  ConvBlock(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : shape_{input.height, input.width, input.channels, spec.channels},
        weight_(pool.declare(spec.name + ".weight",
                             {spec.channels, input.channels, 3, 3}, true,
                             Fill::he(int64_t{9} * input.channels))),
        bias_(spec.bias ? &pool.declare(spec.name + ".bias", {spec.channels},
                                        false, Fill::of(0))
                        : nullptr),
        no_bias_(at::zeros({spec.channels})) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    Saved unsaved;
    Saved& slots = saved ? *saved : unsaved;
    slots.tensors.resize(slot_count);
    slots.tensors[input_at] = channels_last(x);
    const std::vector<int64_t> out = {x.size(0), shape_.outputs,
                                      shape_.height / 2, shape_.width / 2};
    reuse_buffer(slots.tensors[output_at], out);
    reuse_buffer(slots.tensors[choice_at], out, at::kByte);
    pack_forward_weights();
    for_each_worker(x.size(0), [&](Range range, Worker& worker) {
      forward_range(range, slots, worker);
    });
    // Winograd's products spread an Inf over their tile as NaN.
    const bool exact =
        shape_.narrow() ||
        std::isfinite(slots.tensors[output_at].sum().item<float>());
    if (!exact) forward_exactly(slots);
    return slots.tensors[output_at];
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const at::Tensor gradient = channels_last(dy);
    at::Tensor dx;
    if (need_dx && shape_.narrow()) dx = dense_input_gradient(gradient, saved);
    if (need_dx && !shape_.narrow()) {
      dx = reuse_buffer(saved.tensors[input_gradient_at],
                        saved.tensors[input_at].sizes());
      taps_ = weight_.value.permute({0, 2, 3, 1}).contiguous();
    }
    for_each_worker(dy.size(0), [&](Range range, Worker& worker) {
      clear_sums(worker);
      if (shape_.narrow()) {
        narrow_backward_range(range, gradient, saved, worker);
      } else {
        wide_backward_range(range, gradient, saved,
                            need_dx ? dx.data_ptr<float>() : nullptr, worker);
      }
    });
    for (size_t i = 0; i < range_count(dy.size(0)); ++i) add_sums(workers_[i]);
    saved.tensors[input_at].reset();
    return dx;
  }

 private:
  enum Slot { input_at, output_at, choice_at, input_gradient_at, slot_count };

  // Calls `work` for each thread's range at the same time.
  void for_each_worker(int64_t samples,
                       const std::function<void(Range, Worker&)>& work) {
    workers_.resize(std::max(workers_.size(), range_count(samples)));
    for_each_range(samples,
                   [&](size_t i, Range range) { work(range, workers_[i]); });
  }

  void pack_forward_weights() {
    if (shape_.narrow()) {
      taps_ = weight_.value.permute({2, 3, 1, 0}).contiguous();
      return;
    }
    reuse_buffer(taps_, {16, shape_.channels, shape_.outputs});
    winograd_weights(shape_, weight_.value.data_ptr<float>(),
                     taps_.data_ptr<float>());
  }

  const float* bias() const {
    return (bias_ ? bias_->value : no_bias_).data_ptr<float>();
  }

  // Zeroed when made; only the inside is written to after that.
  float* frames(at::Tensor& slot) const {
    const int64_t size = kGroup * shape_.padded_size();
    if (!slot.defined()) slot = at::zeros({size});
    return slot.data_ptr<float>();
  }

  void forward_range(Range range, Saved& saved, Worker& worker) const {
    const float* x = saved.tensors[input_at].data_ptr<float>();
    float* y = saved.tensors[output_at].data_ptr<float>();
    uint8_t* choice = saved.tensors[choice_at].data_ptr<uint8_t>();
    float* padded = frames(worker.padded);
    reuse_buffer(worker.scratch, {winograd_scratch(shape_)});
    for (int64_t n = range.begin; n < range.end; n += kGroup) {
      const int images = static_cast<int>(std::min(kGroup, range.end - n));
      for (int i = 0; i < images; ++i) {
        pad_image(shape_, x + (n + i) * shape_.input_size(),
                  padded + i * shape_.padded_size());
      }
      const int64_t at = n * shape_.output_size();
      if (shape_.narrow()) {
        for (int i = 0; i < images; ++i) {
          const int64_t here = at + i * shape_.output_size();
          kernels_.narrow_forward(shape_, padded + i * shape_.padded_size(),
                                  taps_.data_ptr<float>(), bias(), y + here,
                                  choice + here);
        }
      } else {
        kernels_.wide_forward(shape_, images, padded, taps_.data_ptr<float>(),
                              bias(), worker.scratch.data_ptr<float>(), y + at,
                              choice + at);
      }
    }
  }

  // Fills output and choice by ATen.
  void forward_exactly(Saved& saved) const {
    const at::Tensor dense =
        convolve_exactly(saved.tensors[input_at], weight_.value,
                         bias_ ? bias_->value : at::Tensor(), /*stride=*/1,
                         /*padding=*/1);
    const auto [best, index] = at::max_pool2d_with_indices(dense, {2, 2});
    const at::Tensor row = at::floor_divide(index, shape_.width);
    const at::Tensor choice = row.remainder(2) * 2 + index.remainder(2);
    const at::Tensor dead = best <= 0;
    saved.tensors[output_at].copy_(best.masked_fill(dead, 0));
    saved.tensors[choice_at].copy_(choice.masked_fill(dead, kDead));
  }

  void clear_sums(Worker& worker) const {
    reuse_buffer(worker.dtaps, {int64_t{9} * shape_.channels * shape_.outputs})
        .zero_();
    worker.dbias.assign(static_cast<size_t>(shape_.outputs), 0);
    worker.counts.resize(static_cast<size_t>(shape_.outputs));
    worker.actives.resize(static_cast<size_t>(shape_.output_size()));
  }

  void narrow_backward_range(Range range, const at::Tensor& dy,
                             const Saved& saved, Worker& worker) const {
    const float* x = saved.tensors[input_at].data_ptr<float>();
    const uint8_t* choice = saved.tensors[choice_at].data_ptr<uint8_t>();
    float* padded = frames(worker.padded);
    for (int64_t n = range.begin; n < range.end; ++n) {
      const int64_t at = n * shape_.output_size();
      pad_image(shape_, x + n * shape_.input_size(), padded);
      kernels_.narrow_backward(shape_, padded, dy.data_ptr<float>() + at,
                               choice + at, worker.dtaps.data_ptr<float>(),
                               worker.dbias.data());
    }
  }

  void wide_backward_range(Range range, const at::Tensor& dy,
                           const Saved& saved, float* dx,
                           Worker& worker) const {
    const float* x = saved.tensors[input_at].data_ptr<float>();
    const uint8_t* choice = saved.tensors[choice_at].data_ptr<uint8_t>();
    float* padded = frames(worker.padded);
    float* dpadded = dx ? frames(worker.dpadded) : nullptr;
    for (int64_t n = range.begin; n < range.end; ++n) {
      const int64_t at = n * shape_.output_size();
      pad_image(shape_, x + n * shape_.input_size(), padded);
      find_actives(shape_, dy.data_ptr<float>() + at, choice + at,
                   worker.actives.data(), worker.counts.data(),
                   worker.dbias.data());
      kernels_.wide_backward_weights(shape_, padded, worker.actives.data(),
                                     worker.counts.data(),
                                     worker.dtaps.data_ptr<float>());
      if (!dx) continue;
      std::fill_n(dpadded, shape_.padded_size(), 0.0F);
      kernels_.wide_backward_input(shape_, worker.actives.data(),
                                   worker.counts.data(),
                                   taps_.data_ptr<float>(), dpadded);
      unpad_image(shape_, dpadded, dx + n * shape_.input_size());
    }
  }

  // The first layer of a network seldom needs it, so ATen may compute it.
  at::Tensor dense_input_gradient(const at::Tensor& dy,
                                  const Saved& saved) const {
    const at::Tensor& x = saved.tensors[input_at];
    const at::Tensor dense =
        at::empty({x.size(0), shape_.outputs, shape_.height, shape_.width},
                  at::kFloat, at::MemoryFormat::ChannelsLast);
    for (int64_t n = 0; n < x.size(0); ++n) {
      const int64_t at = n * shape_.output_size();
      expand_gradient(shape_, dy.data_ptr<float>() + at,
                      saved.tensors[choice_at].data_ptr<uint8_t>() + at,
                      dense.data_ptr<float>() + 4 * at);
    }
    return std::get<0>(at::convolution_backward(
        dense, x, weight_.value, at::OptionalIntArrayRef(), {1, 1}, {1, 1},
        {1, 1}, false, {0, 0}, 1, {true, false, false}));
  }

  void add_sums(const Worker& worker) {
    const int64_t in = shape_.channels;
    const int64_t out = shape_.outputs;
    weight_.gradient.add_(
        shape_.narrow()
            ? worker.dtaps.view({3, 3, in, out}).permute({3, 2, 0, 1})
            : worker.dtaps.view({out, 3, 3, in}).permute({0, 3, 1, 2}));
    if (!bias_) return;
    float* gradient = bias_->gradient.data_ptr<float>();
    for (size_t o = 0; o < worker.dbias.size(); ++o) {
      gradient[o] += worker.dbias[o];
    }
  }

  // Images padded together, so that register blocks of the products are full.
  static constexpr int64_t kGroup = 2;

  BlockShape shape_;
  const ConvKernels& kernels_ = conv_kernels();
  const Parameter& weight_;
  const Parameter* bias_;
  at::Tensor no_bias_;
  at::Tensor taps_;  // the weights as the pass at hand needs them
  std::vector<Worker> workers_;
};

}  // namespace

LayerPtr make_conv_block(const LayerSpec& conv, const Shape& input,
                         ParameterPool& pool) {
  return std::make_unique<ConvBlock>(conv, input, pool);
}

}  // namespace dtune
