#include <algorithm>
#include <string>
#include <vector>

#include "dtune/nn/layer.h"
#include "dtune/nn/mask.h"

namespace dtune {
namespace {

// Srivastava et al. 2014 (JMLR 15), inverted: y = x mask / (1 - p).
class Dropout : public Layer {
 public:
  explicit Dropout(const LayerSpec& spec) : drop_(spec.p), name_(spec.name) {}

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
  at::Tensor mask_of(const at::Tensor& x, const PassContext& context) {
    if (!context.training) return {};
    const std::vector<double> drops = drops_of(context);
    if (*std::ranges::max_element(drops) <= 0) return {};
    if (!context.mask_keys.empty()) {
      return dropout_masks(x, context.mask_keys.at(name_),
                           rates_of(drops, x.device()));
    }
    if (context.each.empty())
      return dropout_mask(x, key(context.seed, drop_, context));
    std::vector<MaskKey> keys;
    for (size_t k = 0; k < drops.size(); ++k) {
      keys.push_back(key(context.each[k].seed, drops[k], context));
    }
    return dropout_masks(x, keys);
  }

  // Of each network.
  std::vector<double> drops_of(const PassContext& context) const {
    if (context.each.empty()) return {drop_};
    std::vector<double> drops;
    for (const OwnPass& own : context.each) {
      drops.push_back(own.dropout.at(name_));
    }
    return drops;
  }

  MaskKey key(uint64_t seed, double drop, const PassContext& context) const {
    return {mask_seed(seed, name_), context.first_sample, drop};
  }

  // They stay on the device: they are the same for all batches.
  const MaskRates& rates_of(const std::vector<double>& drops,
                            const at::Device& device) {
    if (drops != rated_) {
      rates_ = mask_rates(drops, device);
      rated_ = drops;
    }
    return rates_;
  }

  double drop_;
  std::string name_;
  std::vector<double> rated_;
  MaskRates rates_;
};

}  // namespace

LayerPtr make_dropout(const LayerSpec& spec) {
  return std::make_unique<Dropout>(spec);
}

}  // namespace dtune
