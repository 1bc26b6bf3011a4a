// Dropout masks by counting: element e of sample n is kept or not by a hash of
// (key of the batch and layer, n, e) alone.
#pragma once

#include <cstdint>
#include <span>

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

}  // namespace dtune
