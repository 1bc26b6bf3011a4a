// The layout in which all layers pass images on.
#pragma once

#include <ATen/ATen.h>

namespace dtune {

// x itself where it is channels-last or flat, else a copy that is.
inline at::Tensor channels_last(const at::Tensor& x) {
  return x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}

}  // namespace dtune
