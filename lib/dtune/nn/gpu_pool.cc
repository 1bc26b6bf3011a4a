#include "dtune/nn/gpu_pool.h"

#include "dtune/base/error.h"
#include "dtune/nn/channels_last.h"
#include "dtune/nn/kernels/cuda/pool.h"
#ifdef DTUNE_WITH_CUDA_KERNELS
#include "dtune/nn/gpu_stream.h"
#endif

namespace dtune {

#ifdef DTUNE_WITH_CUDA_KERNELS
namespace {

constexpr int64_t kLargestWindow = 15;
constexpr int64_t kChannels = 8;  // a multiple of it

CudaPoolShape shape_of(at::IntArrayRef sizes, int64_t window,
                       at::ScalarType type) {
  return {sizes[0],
          static_cast<int>(sizes[2]),
          static_cast<int>(sizes[3]),
          static_cast<int>(sizes[1]),
          static_cast<int>(window),
          type == at::kBFloat16};
}

at::Tensor images_like(const at::Tensor& x, at::IntArrayRef sizes,
                       at::ScalarType type) {
  return at::empty(sizes, x.options().dtype(type).memory_format(
                              at::MemoryFormat::ChannelsLast));
}

}  // namespace

bool is_gpu_pool(const at::Tensor& x, int64_t window, int64_t stride,
                 int64_t padding) {
  return x.is_cuda() && x.dim() == 4 && window == stride && padding == 0 &&
         window <= kLargestWindow && x.size(1) % kChannels == 0;
}

std::pair<at::Tensor, at::Tensor> gpu_max_pool(const at::Tensor& input,
                                               int64_t window) {
  const at::Tensor x = channels_last(input);
  const OnDeviceOf here(x);
  const std::vector<int64_t> sizes = {x.size(0), x.size(1), x.size(2) / window,
                                      x.size(3) / window};
  const at::Tensor y = images_like(x, sizes, x.scalar_type());
  const at::Tensor which = images_like(x, sizes, at::kByte);
  cuda_max_pool(shape_of(x.sizes(), window, x.scalar_type()), x.data_ptr(),
                y.data_ptr(), which.data_ptr<uint8_t>(), here.stream());
  return {y, which};
}

at::Tensor gpu_max_pool_gradient(const at::Tensor& gradient,
                                 const at::Tensor& which, at::IntArrayRef sizes,
                                 int64_t window) {
  const at::Tensor dy = channels_last(gradient);
  const OnDeviceOf here(dy);
  const at::Tensor dx = images_like(dy, sizes, dy.scalar_type());
  cuda_max_pool_gradient(shape_of(sizes, window, dy.scalar_type()),
                         dy.data_ptr(), which.data_ptr<uint8_t>(),
                         dx.data_ptr(), here.stream());
  return dx;
}

#else

bool is_gpu_pool(const at::Tensor&, int64_t, int64_t, int64_t) { return false; }

std::pair<at::Tensor, at::Tensor> gpu_max_pool(const at::Tensor&, int64_t) {
  throw Error(ErrorKind::internal, "nn: a build without kernels for CUDA");
}

at::Tensor gpu_max_pool_gradient(const at::Tensor&, const at::Tensor&,
                                 at::IntArrayRef, int64_t) {
  throw Error(ErrorKind::internal, "nn: a build without kernels for CUDA");
}

#endif

}  // namespace dtune
