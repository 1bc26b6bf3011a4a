#include <algorithm>

#include "dtune/nn/kernels/cuda/launch.h"
#include "dtune/nn/kernels/cuda/pool.h"

namespace dtune {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;

// A thread has the values of some channels in one window.
template <typename T>
struct Window {
  static constexpr int kSize = Pack<T>::kSize;

  const CudaPoolShape& shape;
  int64_t image;
  int row;  // of windows
  int column;
  int channel;

  // `rows` and `columns`: windows, the numbers of which are counted so.
  __device__ Window(const CudaPoolShape& shape, int64_t number, int rows,
                    int columns)
      : shape(shape) {
    const int packs = shape.channels / kSize;
    channel = static_cast<int>(number % packs) * kSize;
    number /= packs;
    column = static_cast<int>(number % columns);
    number /= columns;
    row = static_cast<int>(number % rows);
    image = number / rows;
  }

  __device__ int64_t pixel(int y, int x) const {
    return ((image * shape.height + y) * shape.width + x) * shape.channels +
           channel;
  }
  // Of the windows' tensors.
  __device__ int64_t place() const {
    const int rows = shape.height / shape.window;
    const int columns = shape.width / shape.window;
    return ((image * rows + row) * columns + column) * shape.channels + channel;
  }
};

// kSize bytes, loaded and stored as one.
template <int kSize>
struct Bytes;
template <>
struct Bytes<4> {
  using Type = uint32_t;
};
template <>
struct Bytes<8> {
  using Type = uint64_t;
};

template <typename T>
__global__ void forward(CudaPoolShape shape, int64_t count, const T* x, T* y,
                        uint8_t* which) {
  constexpr int kSize = Pack<T>::kSize;
  using Raw = typename Bytes<kSize>::Type;
  const int rows = shape.height / shape.window;
  const int columns = shape.width / shape.window;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const Window<T> window(shape, i, rows, columns);
    float largest[kSize];
    unsigned at[kSize] = {};
    for (int p = 0; p < shape.window * shape.window; ++p) {
      Pack<T> pack;
      pack.load(x +
                window.pixel(window.row * shape.window + p / shape.window,
                             window.column * shape.window + p % shape.window));
      float v[kSize];
      pack.get(v);
#pragma unroll
      for (int c = 0; c < kSize; ++c) {
        if (p > 0 && !(v[c] > largest[c]) && v[c] == v[c]) continue;
        largest[c] = v[c];
        at[c] = static_cast<unsigned>(p);
      }
    }
    Pack<T> result;
    result.set(largest);
    result.store(y + window.place());
    Raw raw = 0;
#pragma unroll
    for (int c = 0; c < kSize; ++c) raw |= Raw{at[c]} << (8 * c);
    *reinterpret_cast<Raw*>(which + window.place()) = raw;
  }
}

template <typename T>
__global__ void backward(CudaPoolShape shape, int rows, int columns,
                         int64_t count, const T* dy, const uint8_t* which,
                         T* dx) {
  constexpr int kSize = Pack<T>::kSize;
  using Raw = typename Bytes<kSize>::Type;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const Window<T> window(shape, i, rows, columns);
    const bool whole = window.row < shape.height / shape.window &&
                       window.column < shape.width / shape.window;
    float gradient[kSize] = {};
    Raw raw = 0;
    if (whole) {
      Pack<T> pack;
      pack.load(dy + window.place());
      pack.get(gradient);
      raw = *reinterpret_cast<const Raw*>(which + window.place());
    }
    for (int p = 0; p < shape.window * shape.window; ++p) {
      const int y = window.row * shape.window + p / shape.window;
      const int x = window.column * shape.window + p % shape.window;
      if (y >= shape.height || x >= shape.width) continue;
      float v[kSize];
#pragma unroll
      for (int c = 0; c < kSize; ++c) {
        const auto at = static_cast<int>((raw >> (8 * c)) & 0xffU);
        v[c] = whole && at == p ? gradient[c] : 0;
      }
      Pack<T> pack;
      pack.set(v);
      pack.store(dx + window.pixel(y, x));
    }
  }
}

int64_t packs_of(const CudaPoolShape& shape) {
  return shape.channels /
         (shape.bfloat16 ? Pack<__nv_bfloat16>::kSize : Pack<float>::kSize);
}

unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, kMostBlocks));
}

}  // namespace

void cuda_max_pool(const CudaPoolShape& shape, const void* x, void* y,
                   uint8_t* which, void* stream) {
  const int64_t count = shape.images * (shape.height / shape.window) *
                        (shape.width / shape.window) * packs_of(shape);
  with_type(shape.bfloat16, [&]<typename T>(T*) {
    forward<T><<<blocks_for(count), kThreads, 0, as_stream(stream)>>>(
        shape, count, static_cast<const T*>(x), static_cast<T*>(y), which);
  });
  check_launch("max pool");
}

void cuda_max_pool_gradient(const CudaPoolShape& shape, const void* dy,
                            const uint8_t* which, void* dx, void* stream) {
  const int rows = (shape.height + shape.window - 1) / shape.window;
  const int columns = (shape.width + shape.window - 1) / shape.window;
  const int64_t count = shape.images * rows * columns * packs_of(shape);
  with_type(shape.bfloat16, [&]<typename T>(T*) {
    backward<T><<<blocks_for(count), kThreads, 0, as_stream(stream)>>>(
        shape, rows, columns, count, static_cast<const T*>(dy), which,
        static_cast<T*>(dx));
  });
  check_launch("max pool, backward");
}

}  // namespace dtune
