#include <utility>
#include <vector>

#include "dtune/nn/layer.h"

namespace dtune {
namespace {

// Layers one after the other, with a Saved for each.
class Branch {
 public:
  Branch(const std::vector<LayerSpec>& specs, Shape shape,
         ParameterPool& pool) {
    for (const LayerSpec& spec : specs) {
      layers_.push_back(make_layer(spec, shape, pool, shape));
    }
  }

  at::Tensor forward(at::Tensor x, Saved* saved, const PassContext& context) {
    if (saved) saved->children.resize(layers_.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i]->forward(x, saved ? &saved->children[i] : nullptr,
                              context);
    }
    return x;
  }

  // The branch's input needs its gradient as soon as anything before it has
  // weights, so only the first layer may skip it.
  at::Tensor backward(at::Tensor dy, Saved& saved, bool need_dx) {
    for (size_t i = layers_.size(); i-- > 0;) {
      dy = layers_[i]->backward(dy, saved.children[i], i > 0 || need_dx);
    }
    return dy;
  }

 private:
  std::vector<LayerPtr> layers_;
};

// y = body(x) + shortcut(x) (He et al. 2015, arXiv 1512.03385).
class Residual : public Layer {
 public:
  Residual(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : body_(spec.body, input, pool), shortcut_(spec.shortcut, input, pool) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext& context) override {
    if (saved) saved->children.resize(2);
    const at::Tensor y =
        body_.forward(x, saved ? &saved->children[0] : nullptr, context);
    return y +
           shortcut_.forward(x, saved ? &saved->children[1] : nullptr, context);
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const at::Tensor body = body_.backward(dy, saved.children[0], need_dx);
    const at::Tensor shortcut =
        shortcut_.backward(dy, saved.children[1], need_dx);
    return need_dx ? body + shortcut : at::Tensor();
  }

 private:
  Branch body_;
  Branch shortcut_;
};

}  // namespace

LayerPtr make_residual(const LayerSpec& spec, const Shape& input,
                       ParameterPool& pool) {
  return std::make_unique<Residual>(spec, input, pool);
}

}  // namespace dtune
