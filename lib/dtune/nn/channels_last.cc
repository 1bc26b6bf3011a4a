#include "dtune/nn/channels_last.h"

#include "dtune/nn/kernels/transpose.h"

namespace dtune {
namespace {

// ATen's own copy between the two layouts takes several times as long.
bool can_transpose(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0;
}

}  // namespace

at::Tensor flatten_image(const at::Tensor& x) {
  const bool image = x.dim() == 4 && !x.is_contiguous() &&
                     x.is_contiguous(at::MemoryFormat::ChannelsLast);
  if (!image || !can_transpose(x)) return x.flatten(1);
  const int64_t elements = x.numel() / x.size(0);
  at::Tensor flat = at::empty({x.size(0), elements}, x.options());
  const auto area = static_cast<int>(x.size(2) * x.size(3));
  for (int64_t n = 0; n < x.size(0); ++n) {
    transpose(x.data_ptr<float>() + n * elements, area,
              static_cast<int>(x.size(1)),
              flat.data_ptr<float>() + n * elements);
  }
  return flat;
}

at::Tensor unflatten_image(const at::Tensor& flat, at::IntArrayRef shape) {
  const bool image = shape.size() == 4 && flat.is_contiguous();
  if (!image || !can_transpose(flat)) return channels_last(flat.view(shape));
  at::Tensor x =
      at::empty(shape, flat.options(), at::MemoryFormat::ChannelsLast);
  const int64_t elements = flat.numel() / shape[0];
  const auto area = static_cast<int>(shape[2] * shape[3]);
  for (int64_t n = 0; n < shape[0]; ++n) {
    transpose(flat.data_ptr<float>() + n * elements, static_cast<int>(shape[1]),
              area, x.data_ptr<float>() + n * elements);
  }
  return x;
}

}  // namespace dtune
