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
  // Without layers the input's gradient is dy, whatever its target.
  at::Tensor backward(at::Tensor dy, Saved& saved, const InputGradient& input,
                      AddendGradient* addend) {
    for (size_t i = layers_.size(); i-- > 0;) {
      const InputGradient mine = i > 0 ? InputGradient{} : input;
      Saved& child = saved.children[i];
      if (layers_[i].get() == sum_) {
        dy = sum_->backward_sum(dy, child, mine, addend);
      } else if (mine.need_dx) {
        dy = layers_[i]->backward_to(dy, child, mine.target);
      } else {
        dy = layers_[i]->backward(dy, child, false);
      }
    }
    return dy;
  }

  // REQUIRES: sums().
  EndNorm end_norm(Saved& saved) {
    return saved.children.empty() ? EndNorm{}
                                  : sum_->end_norm(saved.children.back());
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
                  {.fusion = options.fusion, .in_branch = true}) {}

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
    return body_.sums() ? backward_sums(gradient, saved, {.need_dx = need_dx})
                        : backward_plain(gradient, saved, need_dx);
  }

  at::Tensor backward_to(const at::Tensor& gradient, Saved& saved,
                         const GradientTarget& target) override {
    if (!body_.sums() || target.onto.defined()) {
      return Layer::backward_to(gradient, saved, target);
    }
    return backward_sums(gradient, saved, {.target = target});
  }

  EndNorm end_norm(Saved& saved) override {
    if (!body_.sums() || saved.children.empty()) return {};
    return body_.end_norm(saved.children[0]);
  }

 private:
  at::Tensor backward_plain(const at::Tensor& gradient, Saved& saved,
                            bool need_dx) {
    at::Tensor dy = gradient;
    if (relu_) {
      dy = at::threshold_backward(dy, saved.tensors.at(0), 0);
      saved.tensors.clear();
    }
    const InputGradient input{.need_dx = need_dx};
    const at::Tensor body =
        body_.backward(dy, saved.children[0], input, nullptr);
    const at::Tensor other =
        shortcut_.backward(dy, saved.children[1], input, nullptr);
    return add(body, dy, other, need_dx);
  }

  // Where nothing else holds the gradient it is overwritten.
  at::Tensor backward_sums(const at::Tensor& gradient, Saved& saved,
                           const InputGradient& input) {
    const bool own = gradient.use_count() == 1 &&
                     gradient.storage().use_count() == 1 &&
                     gradient.is_contiguous(at::MemoryFormat::ChannelsLast);
    AddendGradient addend{
        own ? gradient : at::Tensor(),
        input.need_dx && shortcut_.size() == 0 && body_.size() == 1};
    if (addend.of_input) {
      return body_.backward(gradient, saved.children[0], input, &addend);
    }
    const at::Tensor body = body_.backward(gradient, saved.children[0],
                                           {.need_dx = input.need_dx}, &addend);
    // The shortcut's gradient is added where it is computed.
    InputGradient last = input;
    const bool onto =
        input.need_dx && shortcut_.size() > 0 && !body.is_alias_of(gradient);
    last.target =
        onto ? GradientTarget{body, input.target.before} : GradientTarget{};
    const at::Tensor other =
        shortcut_.backward(addend.values, saved.children[1], last, nullptr);
    return onto ? other : add(body, gradient, other, input.need_dx);
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
        options.fusion != Fusion::none && options.relu && !body.empty() &&
        is_fast_norm(body.back(), infer_shapes(body, input).back().output);
    return {.fusion = options.fusion, .in_branch = true, .sum_relu = sums};
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
