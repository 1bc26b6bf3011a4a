#include <vector>

#include "dtune/base/random.h"
#include "dtune/nn/layer.h"
#include "dtune/nn/mask.h"

namespace dtune {
namespace {

// Srivastava et al. 2014 (JMLR 15), inverted: y = x mask / (1 - p).
class Dropout : public Layer {
 public:
  explicit Dropout(const LayerSpec& spec)
      : drop_(spec.p), name_(spec.name), name_hash_(hash_text(spec.name)) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext& context) override {
    if (saved) saved->tensors.clear();
    const at::Tensor mask = mask_of(x, context);
    if (!mask.defined()) return x;
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
  // Undefined where nothing is dropped.
  at::Tensor mask_of(const at::Tensor& x, const PassContext& context) const {
    if (!context.training) return {};
    if (!context.each.empty()) return masks_of(x, context);
    if (drop_ <= 0) return {};
    const uint64_t seed = mix_seed({context.seed, name_hash_});
    return dropout_mask(x, {seed, context.first_sample, drop_});
  }

  at::Tensor masks_of(const at::Tensor& x, const PassContext& context) const {
    std::vector<MaskKey> keys;
    bool drops = false;
    for (const OwnPass& own : context.each) {
      keys.push_back({mix_seed({own.seed, name_hash_}), context.first_sample,
                      own.dropout.at(name_)});
      drops = drops || keys.back().drop > 0;
    }
    return drops ? dropout_masks(x, keys) : at::Tensor();
  }

  double drop_;
  std::string name_;
  uint64_t name_hash_;
};

}  // namespace

LayerPtr make_dropout(const LayerSpec& spec) {
  return std::make_unique<Dropout>(spec);
}

}  // namespace dtune
