#include <utility>
#include <vector>

#include "dtune/nn/fuse.h"

namespace dtune {
namespace {

// Layers one after the other, with a Saved for each. The last one may add the
// other branch.
class Branch {
 public:
  Branch(const std::vector<LayerSpec>& specs, Shape shape, ParameterPool& pool,
         const StageOptions& options) {
    for (size_t at = 0; at < specs.size();) {
      Stage stage = make_stage(specs, at, shape, pool, options);
      at += static_cast<size_t>(stage.count);
      sum_ = stage.sums;
      layers_.push_back(std::move(stage.layer));
    }
  }

  bool sums() const { return sum_ != nullptr; }

  // addend: undefined unless sums().
  at::Tensor forward(at::Tensor x, const at::Tensor& addend, Saved* saved,
                     const PassContext& context) {
    if (saved) saved->children.resize(layers_.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
      Saved* child = saved ? &saved->children[i] : nullptr;
      x = layers_[i].get() == sum_
              ? sum_->forward_sum(x, addend, child, context)
              : layers_[i]->forward(x, child, context);
    }
    return x;
  }

  // Layers; 0: the branch gives back its input.
  size_t size() const { return layers_.size(); }

  // The branch's input needs its gradient as soon as anything before it has
  // weights, so only the first layer may skip it. addend: null unless sums().
  at::Tensor backward(at::Tensor dy, Saved& saved, bool need_dx,
                      AddendGradient* addend) {
    for (size_t i = layers_.size(); i-- > 0;) {
      const bool need = i > 0 || need_dx;
      Saved& child = saved.children[i];
      dy = layers_[i].get() == sum_
               ? sum_->backward_sum(dy, child, need, addend)
               : layers_[i]->backward(dy, child, need);
    }
    return dy;
  }

 private:
  std::vector<LayerPtr> layers_;
  SumLayer* sum_ = nullptr;  // the last one
};

// y = body(x) + shortcut(x) (He et al. 2015, arXiv 1512.03385), and a ReLU
// where that is a part of it.
class Residual : public Layer {
 public:
  Residual(const LayerSpec& spec, const Shape& input, ParameterPool& pool,
           const ResidualOptions& options)
      : relu_(options.relu),
        body_(spec.body, input, pool, body_options(spec, input, options)),
        shortcut_(spec.shortcut, input, pool,
                  {.fuse = options.fuse, .in_branch = true}) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext& context) override {
    if (saved) saved->children.resize(2);
    Saved* body = saved ? &saved->children[0] : nullptr;
    Saved* other = saved ? &saved->children[1] : nullptr;
    const at::Tensor addend = shortcut_.forward(x, {}, other, context);
    if (body_.sums()) return body_.forward(x, addend, body, context);
    at::Tensor y = body_.forward(x, {}, body, context) + addend;
    if (relu_) y.relu_();
    if (saved && relu_) saved->tensors = {y};
    return y;
  }

  at::Tensor backward(const at::Tensor& gradient, Saved& saved,
                      bool need_dx) override {
    if (body_.sums()) return backward_sums(gradient, saved, need_dx);
    at::Tensor dy = gradient;
    if (relu_) {
      dy = at::threshold_backward(dy, saved.tensors.at(0), 0);
      saved.tensors.clear();
    }
    const at::Tensor body =
        body_.backward(dy, saved.children[0], need_dx, nullptr);
    return add(body, dy,
               shortcut_.backward(dy, saved.children[1], need_dx, nullptr),
               need_dx);
  }

 private:
  // Where nothing else holds the gradient it is overwritten.
  at::Tensor backward_sums(const at::Tensor& gradient, Saved& saved,
                           bool need_dx) {
    const bool own = gradient.use_count() == 1 &&
                     gradient.storage().use_count() == 1 &&
                     gradient.is_contiguous(at::MemoryFormat::ChannelsLast);
    AddendGradient addend{
        own ? gradient : at::Tensor(),
        need_dx && shortcut_.size() == 0 && body_.size() == 1};
    const at::Tensor body =
        body_.backward(gradient, saved.children[0], need_dx, &addend);
    if (addend.of_input) return body;
    const at::Tensor other =
        shortcut_.backward(addend.values, saved.children[1], need_dx, nullptr);
    return add(body, gradient, other, need_dx);
  }

  // A new tensor, unless a branch gave back what it got or a view of it.
  static at::Tensor add(const at::Tensor& body, const at::Tensor& dy,
                        const at::Tensor& other, bool need_dx) {
    if (!need_dx) return {};
    return body.is_alias_of(dy) ? body + other : body.add_(other);
  }

  // A batch norm at the end of the body takes the sum and the ReLU in.
  static StageOptions body_options(const LayerSpec& spec, const Shape& input,
                                   const ResidualOptions& options) {
    const std::vector<LayerSpec>& body = spec.body;
    const bool sums =
        options.fuse && options.relu && !body.empty() &&
        is_fast_norm(body.back(), infer_shapes(body, input).back().output);
    return {.fuse = options.fuse, .in_branch = true, .sum_relu = sums};
  }

  bool relu_;
  Branch body_;
  Branch shortcut_;
};

}  // namespace

LayerPtr make_residual(const LayerSpec& spec, const Shape& input,
                       ParameterPool& pool, const ResidualOptions& options) {
  return std::make_unique<Residual>(spec, input, pool, options);
}

}  // namespace dtune
