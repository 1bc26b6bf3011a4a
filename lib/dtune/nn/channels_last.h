// The layout in which all layers pass images on.
#pragma once

#include <ATen/ATen.h>

namespace dtune {

// x itself where it is channels-last or flat, else a copy that is.
inline at::Tensor channels_last(const at::Tensor& x) {
  return x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}

// [N, C, H, W] -> [N, C H W] in that order, whatever the layout; flat inputs
// are returned as they are.
at::Tensor flatten_image(const at::Tensor& x);

// The way back; an image is channels-last.
at::Tensor unflatten_image(const at::Tensor& flat, at::IntArrayRef shape);

}  // namespace dtune
