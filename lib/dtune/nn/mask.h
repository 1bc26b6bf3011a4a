// Dropout masks by counting: element e of sample n is kept or not by a hash of
// (key of the batch and layer, n, e) alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace dtune {

// What a mask depends on.
struct MaskKey {
  uint64_t seed = 0;  // of the batch and the layer
  int64_t first_sample = 0;
  double drop = 0;  // probability that an element is dropped, [0, 1]
};

// A float32 tensor shaped as x (a channels-last or 2-D batch) that holds
// 1 / (1 - drop) where an element is kept and 0 where not (all 0 if drop is 1).
// Elements of a sample count in memory order. The same on every device.
at::Tensor dropout_mask(const at::Tensor& x, const MaskKey& key);

// Of networks whose channels (or features) lie side by side in x: the part of
// network k is the mask that keys[k] gives its own tensor. By tensor operations
// on every device.
at::Tensor dropout_masks(const at::Tensor& x, std::span<const MaskKey> keys);

// --- The same in two parts: what the CPU makes for each batch, and what the
// device does with it.

// The probabilities of networks side by side, as dropout_masks takes them.
struct MaskRates {
  at::Tensor limits;  // [1, 1, networks, 1] int64: smaller hashes are dropped
  at::Tensor scales;  // likewise, float32: of what is kept
};
MaskRates mask_rates(std::span<const double> drops, const at::Device& device);

// The seed of a layer's masks in a pass of this seed.
uint64_t mask_seed(uint64_t pass_seed, const std::string& layer);

// Of a whole batch, [layers, samples, networks] int64 on the CPU, to be sent to
// the device; pass_seeds: of each network.
at::Tensor batch_mask_keys(const std::vector<std::string>& layers,
                           std::span<const uint64_t> pass_seeds,
                           int64_t samples, const at::Device& device);

// keys: [samples, networks], a layer's of the above, on x's device.
at::Tensor dropout_masks(const at::Tensor& x, const at::Tensor& keys,
                         const MaskRates& rates);

}  // namespace dtune
