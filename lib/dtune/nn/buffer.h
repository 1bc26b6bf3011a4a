// Tensors that are used again for the next batch instead of being allocated:
// fresh pages cost more than what a small layer computes.
#pragma once

#include <ATen/ATen.h>

namespace dtune {

// Makes `slot` an uninitialised CPU tensor of this shape (channels-last if it
// has four dimensions), the one that it holds if no other holds it. Returns it.
inline const at::Tensor& reuse_buffer(at::Tensor& slot, at::IntArrayRef shape,
                                      at::ScalarType type = at::kFloat) {
  const bool fits = slot.defined() && slot.use_count() == 1 &&
                    slot.sizes() == shape && slot.scalar_type() == type;
  if (fits) return slot;
  slot = at::empty(shape, at::TensorOptions(type),
                   shape.size() == 4 ? at::MemoryFormat::ChannelsLast
                                     : at::MemoryFormat::Contiguous);
  return slot;
}

}  // namespace dtune
