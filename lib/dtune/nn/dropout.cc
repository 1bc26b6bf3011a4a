#include "dtune/base/random.h"
#include "dtune/nn/layer.h"
#include "dtune/nn/mask.h"

namespace dtune {
namespace {

// Srivastava et al. 2014 (JMLR 15), inverted: y = x mask / (1 - p).
class Dropout : public Layer {
 public:
  explicit Dropout(const LayerSpec& spec)
      : drop_(spec.p), name_hash_(hash_text(spec.name)) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext& context) override {
    if (saved) saved->tensors.clear();
    if (!context.training || drop_ <= 0) return x;
    const uint64_t seed = mix_seed({context.seed, name_hash_});
    at::Tensor mask = dropout_mask(x, {seed, context.first_sample, drop_});
    if (saved) saved->tensors = {mask};
    return (x * mask).to(x.scalar_type());
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    if (!need_dx) return {};
    if (saved.tensors.empty()) return dy;
    return (dy * saved.tensors[0]).to(dy.scalar_type());
  }

 private:
  double drop_;
  uint64_t name_hash_;
};

}  // namespace

LayerPtr make_dropout(const LayerSpec& spec) {
  return std::make_unique<Dropout>(spec);
}

}  // namespace dtune
