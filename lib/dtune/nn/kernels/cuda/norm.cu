#include <algorithm>

#include "dtune/nn/kernels/cuda/launch.h"
#include "dtune/nn/kernels/cuda/norm.h"

namespace dtune {
namespace {

// A block has some channels, 128 bytes of a row, of many rows: kAcross threads
// read 16 bytes of a row each, and kDown such rows are read at once.
constexpr int kAcross = 8;
constexpr int kDown = 64;
constexpr int kThreads = kAcross * kDown;
constexpr int kWarps = kThreads / 32;
// Rows that a thread has on their way at once.
constexpr int kAhead = 4;
// Blocks for sums, which the last one adds up; of an H100 two for each
// multiprocessor. The number decides the rounding, hence it is fixed.
constexpr int kSumBlocks = 264;
constexpr int kApplyBlocks = 1056;

template <typename T>
constexpr int kChannels = kAcross* Pack<T>::kSize;  // of a block

int channels_of_block(const CudaNormShape& shape) {
  return shape.bfloat16 ? kChannels<__nv_bfloat16> : kChannels<float>;
}

int chunks_of(const CudaNormShape& shape) {
  const int each = channels_of_block(shape);
  return (shape.channels + each - 1) / each;
}

dim3 grid_of(const CudaNormShape& shape, int blocks) {
  const int chunks = chunks_of(shape);
  const int64_t useful = (shape.rows + kDown - 1) / kDown;
  const int64_t most = std::max(1, blocks / chunks);
  return {static_cast<unsigned>(std::clamp<int64_t>(useful, 1, most)),
          static_cast<unsigned>(chunks)};
}

template <typename T>
struct Place {
  int64_t rows;
  int channels;
  int channel;  // the first of this thread's
  int row;      // likewise
  int step;     // from one row of it to the next

  __device__ explicit Place(int64_t rows, int channels)
      : rows(rows),
        channels(channels),
        channel(blockIdx.y * kChannels<T> +
                (threadIdx.x % kAcross) * Pack<T>::kSize),
        row(blockIdx.x * kDown + threadIdx.x / kAcross),
        step(gridDim.x * kDown) {}

  __device__ bool any() const { return channel < channels; }
  __device__ int64_t at(int64_t r) const { return r * channels + channel; }
};

// Calls load(k, place) of some of this thread's rows, so that all are on their
// way, then use(k, place) of the same.
template <typename T, typename Load, typename Use>
__device__ void for_rows(const Place<T>& place, const Load& load,
                         const Use& use) {
  for (int64_t r = place.row; r < place.rows;
       r += int64_t{kAhead} * place.step) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t at = r + int64_t{k} * place.step;
      if (at < place.rows) load(k, place.at(at));
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t at = r + int64_t{k} * place.step;
      if (at < place.rows) use(k, place.at(at));
    }
  }
}

template <int kSize>
__device__ void read(const float* from, float (&v)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) v[i] = from[i];
}

// The mean of some pixels from all over the image, the same in each block: what
// is summed up is x less this, for else the variance would be a difference of
// large numbers.
template <typename T>
__device__ void typical(const Place<T>& place, const T* x,
                        float (&shift)[Pack<T>::kSize]) {
  constexpr int kPixels = 8;
#pragma unroll
  for (int i = 0; i < kPixels; ++i) {
    Pack<T> pack;
    pack.load(x + place.at(place.rows * (2 * i + 1) / (2 * kPixels)));
    float v[Pack<T>::kSize];
    pack.get(v);
    for (int c = 0; c < Pack<T>::kSize; ++c) shift[c] += v[c] / kPixels;
  }
}

// Adds up the threads' two sums of each channel, first over the block; true in
// the last block of the chunk, where `total` [2 kChannels] then has those of all
// blocks.
template <typename T>
__device__ bool add_up(const Place<T>& place, float (&first)[Pack<T>::kSize],
                       float (&second)[Pack<T>::kSize], float* sums,
                       unsigned* finished, float* total) {
  constexpr int kSize = Pack<T>::kSize;
  constexpr int kAll = 2 * kChannels<T>;
  __shared__ float parts[kWarps][kAll];
  const int thread = threadIdx.x;
  const int across = thread % kAcross;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
#pragma unroll
    for (int other = kAcross; other < 32; other *= 2) {
      first[i] += __shfl_xor_sync(0xffffffffU, first[i], other);
      second[i] += __shfl_xor_sync(0xffffffffU, second[i], other);
    }
  }
  if (thread % 32 < kAcross) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      parts[thread / 32][across * kSize + i] = first[i];
      parts[thread / 32][kChannels<T> + across * kSize + i] = second[i];
    }
  }
  __syncthreads();
  float* own = sums + (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * kAll;
  if (thread < kAll) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += parts[w][thread];
    own[thread] = sum;
  }
  __threadfence();
  __syncthreads();
  __shared__ bool is_last;
  if (thread == 0) {
    is_last = atomicAdd(finished + blockIdx.y, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return false;
  __threadfence();
  if (thread == 0) finished[blockIdx.y] = 0;
  // Four columns a thread, and lanes of blocks.
  constexpr int kColumns = kAll / 4;
  constexpr int kLanes = kThreads / kColumns;
  __shared__ float4 lanes[kLanes][kColumns];
  const int column = thread % kColumns;
  const int lane = thread / kColumns;
  const auto* all = reinterpret_cast<const float4*>(
      sums + int64_t{blockIdx.y} * gridDim.x * kAll);
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int b = lane; b < static_cast<int>(gridDim.x); b += kLanes) {
    const float4 one = __ldcg(all + int64_t{b} * kColumns + column);
    sum.x += one.x;
    sum.y += one.y;
    sum.z += one.z;
    sum.w += one.w;
  }
  lanes[lane][column] = sum;
  __syncthreads();
  if (thread < kColumns) {
    float4 whole = make_float4(0, 0, 0, 0);
    for (int l = 0; l < kLanes; ++l) {
      whole.x += lanes[l][thread].x;
      whole.y += lanes[l][thread].y;
      whole.z += lanes[l][thread].z;
      whole.w += lanes[l][thread].w;
    }
    reinterpret_cast<float4*>(total)[thread] = whole;
  }
  __syncthreads();
  return true;
}

__device__ void write_map(float* map, int channels, int c, float mean,
                          float variance, float weight, float bias,
                          float epsilon) {
  const float inverse = 1 / sqrtf(variance + epsilon);
  map[c] = mean;
  map[channels + c] = inverse;
  map[2 * channels + c] = weight * inverse;
  map[3 * channels + c] = bias - mean * weight * inverse;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    batch_map(int64_t rows, int channels, const T* x, CudaNormWeights weights,
              float momentum, float epsilon, CudaNormScratch scratch,
              float* map) {
  constexpr int kSize = Pack<T>::kSize;
  const Place<T> place(rows, channels);
  float shift[kSize] = {};
  float first[kSize] = {};
  float second[kSize] = {};
  if (place.any()) {
    typical(place, x, shift);
    Pack<T> packs[kAhead];
    for_rows(
        place, [&](int k, int64_t at) { packs[k].load(x + at); },
        [&](int k, int64_t) {
          float v[kSize];
          packs[k].get(v);
#pragma unroll
          for (int i = 0; i < kSize; ++i) {
            const float off = v[i] - shift[i];
            first[i] += off;
            second[i] += off * off;
          }
        });
  }
  __shared__ __align__(16) float total[2 * kChannels<T>];
  __shared__ float shifts[kChannels<T>];
  if (threadIdx.x < kAcross) {
    for (int i = 0; i < kSize; ++i) shifts[threadIdx.x * kSize + i] = shift[i];
  }
  if (!add_up(place, first, second, scratch.sums, scratch.finished, total)) {
    return;
  }
  const int c = blockIdx.y * kChannels<T> + threadIdx.x;
  if (threadIdx.x >= kChannels<T> || c >= channels) return;
  const auto n = static_cast<float>(rows);
  const float away = total[threadIdx.x] / n;
  const float mean = shifts[threadIdx.x] + away;
  float variance = total[kChannels<T> + threadIdx.x] / n - away * away;
  if (variance < 0) variance = 0;  // by rounding; NaN stays
  if (weights.mean != nullptr) {
    weights.mean[c] += momentum * (mean - weights.mean[c]);
    weights.variance[c] +=
        momentum * (variance * n / (n - 1) - weights.variance[c]);
  }
  write_map(map, channels, c, mean, variance, weights.weight[c],
            weights.bias[c], epsilon);
}

__global__ void running_map(int channels, CudaNormWeights weights,
                            float epsilon, float* map) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= channels) return;
  write_map(map, channels, c, weights.mean[c], weights.variance[c],
            weights.weight[c], weights.bias[c], epsilon);
}

template <typename T, bool kAddend, bool kRelu>
__global__ void __launch_bounds__(kThreads)
    apply(int64_t rows, int channels, const T* x, const float* map,
          const T* addend, T* y) {
  constexpr int kSize = Pack<T>::kSize;
  const Place<T> place(rows, channels);
  if (!place.any()) return;
  float scale[kSize];
  float offset[kSize];
  read(map + 2 * channels + place.channel, scale);
  read(map + 3 * channels + place.channel, offset);
  Pack<T> packs[kAhead];
  Pack<T> others[kAddend ? kAhead : 1];
  for_rows(
      place,
      [&](int k, int64_t at) {
        packs[k].load(x + at);
        if (kAddend) others[k].load(addend + at);
      },
      [&](int k, int64_t at) {
        float v[kSize];
        float more[kSize] = {};
        packs[k].get(v);
        if (kAddend) others[k].get(more);
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
          v[i] = v[i] * scale[i] + offset[i] + more[i];
          if (kRelu && v[i] < 0) v[i] = 0;
        }
        packs[k].set(v);
        packs[k].store(y + at);
      });
}

// How it is known where a gradient counts.
enum class Mask { none, from_x, from_y };

// dy, where it counts.
template <Mask kMask, int kSize>
__device__ void mask(float (&dy)[kSize], const float (&x)[kSize],
                     const float (&y)[kSize], const float (&scale)[kSize],
                     const float (&offset)[kSize]) {
  if constexpr (kMask != Mask::none) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float result =
          kMask == Mask::from_y ? y[i] : x[i] * scale[i] + offset[i];
      if (result <= 0) dy[i] = 0;
    }
  }
}

template <typename T>
struct Gradient {
  const T* dy;
  const T* x;
  const T* y;
  const float* map;
};

// A thread's rows of it, some at once.
template <typename T, Mask kMask>
struct GradientRows {
  static constexpr int kSize = Pack<T>::kSize;
  Pack<T> dy[kAhead];
  Pack<T> x[kAhead];
  Pack<T> y[kMask == Mask::from_y ? kAhead : 1];

  __device__ void load(int k, const Gradient<T>& from, int64_t at) {
    dy[k].load(from.dy + at);
    x[k].load(from.x + at);
    if (kMask == Mask::from_y) y[k].load(from.y + at);
  }
  __device__ void get(int k, float (&a)[kSize], float (&b)[kSize],
                      const float (&scale)[kSize],
                      const float (&offset)[kSize]) const {
    float result[kSize] = {};
    dy[k].get(a);
    x[k].get(b);
    if (kMask == Mask::from_y) y[k].get(result);
    mask<kMask>(a, b, result, scale, offset);
  }
};

template <typename T, Mask kMask, bool kWrites>
__global__ void __launch_bounds__(kThreads)
    gradient_map(int64_t rows, int channels, Gradient<T> of,
                 CudaNormWeights weights, bool training,
                 CudaNormScratch scratch, T* masked, float* result) {
  constexpr int kSize = Pack<T>::kSize;
  const Place<T> place(rows, channels);
  float first[kSize] = {};
  float second[kSize] = {};
  if (place.any()) {
    float mean[kSize];
    float scale[kSize];
    float offset[kSize];
    read(of.map + place.channel, mean);
    read(of.map + 2 * channels + place.channel, scale);
    read(of.map + 3 * channels + place.channel, offset);
    GradientRows<T, kMask> read_rows;
    for_rows(
        place, [&](int k, int64_t at) { read_rows.load(k, of, at); },
        [&](int k, int64_t at) {
          float dy[kSize];
          float x[kSize];
          read_rows.get(k, dy, x, scale, offset);
#pragma unroll
          for (int i = 0; i < kSize; ++i) {
            first[i] += dy[i];
            second[i] += dy[i] * (x[i] - mean[i]);
          }
          if (kWrites) {
            Pack<T> pack;
            pack.set(dy);
            pack.store(masked + at);
          }
        });
  }
  __shared__ __align__(16) float total[2 * kChannels<T>];
  if (!add_up(place, first, second, scratch.sums, scratch.finished, total)) {
    return;
  }
  const int c = blockIdx.y * kChannels<T> + threadIdx.x;
  if (threadIdx.x >= kChannels<T> || c >= channels) return;
  const auto n = static_cast<float>(rows);
  const float sum = total[threadIdx.x];
  const float product = total[kChannels<T> + threadIdx.x];
  const float inverse = of.map[channels + c];
  weights.weight_gradient[c] += product * inverse;
  weights.bias_gradient[c] += sum;
  const float scale = weights.weight[c] * inverse;
  const float slope = training ? -scale * inverse * inverse * product / n : 0;
  result[c] = scale;
  result[channels + c] = slope;
  result[2 * channels + c] =
      training ? -scale * sum / n - slope * of.map[c] : 0;
}

template <typename T, Mask kMask, bool kAddend>
__global__ void __launch_bounds__(kThreads)
    input_gradient(int64_t rows, int channels, Gradient<T> of,
                   const float* gradient, const T* addend, T* dx) {
  constexpr int kSize = Pack<T>::kSize;
  const Place<T> place(rows, channels);
  if (!place.any()) return;
  float scale[kSize];
  float offset[kSize];
  float by[kSize];
  float slope[kSize];
  float plus[kSize];
  read(of.map + 2 * channels + place.channel, scale);
  read(of.map + 3 * channels + place.channel, offset);
  read(gradient + place.channel, by);
  read(gradient + channels + place.channel, slope);
  read(gradient + 2 * channels + place.channel, plus);
  GradientRows<T, kMask> read_rows;
  Pack<T> others[kAddend ? kAhead : 1];
  for_rows(
      place,
      [&](int k, int64_t at) {
        read_rows.load(k, of, at);
        if (kAddend) others[k].load(addend + at);
      },
      [&](int k, int64_t at) {
        float dy[kSize];
        float x[kSize];
        float more[kSize] = {};
        read_rows.get(k, dy, x, scale, offset);
        if (kAddend) others[k].get(more);
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
          dy[i] = dy[i] * by[i] + x[i] * slope[i] + plus[i] + more[i];
        }
        Pack<T> pack;
        pack.set(dy);
        pack.store(dx + at);
      });
}

template <Mask>
struct MaskOf {};

template <typename Function>
void with_mask(const CudaNormGradient& gradient, const Function& function) {
  if (!gradient.relu) return function(MaskOf<Mask::none>());
  if (gradient.y != nullptr) return function(MaskOf<Mask::from_y>());
  function(MaskOf<Mask::from_x>());
}

template <typename T>
Gradient<T> gradient_of(const CudaNormGradient& gradient, const void* x,
                        const float* map) {
  return {static_cast<const T*>(gradient.dy), static_cast<const T*>(x),
          static_cast<const T*>(gradient.y), map};
}

}  // namespace

int64_t cuda_norm_sums(const CudaNormShape& shape) {
  const dim3 grid = grid_of(shape, kSumBlocks);
  return int64_t{grid.x} * grid.y * 2 * channels_of_block(shape);
}

int64_t cuda_norm_counters(const CudaNormShape& shape) {
  return chunks_of(shape);
}

void cuda_norm_batch_map(const CudaNormShape& shape, const void* x,
                         const CudaNormWeights& weights, double momentum,
                         double epsilon, const CudaNormScratch& scratch,
                         float* map, void* stream) {
  with_type(shape.bfloat16, [&]<typename T>(T*) {
    batch_map<T>
        <<<grid_of(shape, kSumBlocks), kThreads, 0, as_stream(stream)>>>(
            shape.rows, shape.channels, static_cast<const T*>(x), weights,
            static_cast<float>(momentum), static_cast<float>(epsilon), scratch,
            map);
  });
  check_launch("batch norm");
}

void cuda_norm_running_map(const CudaNormShape& shape,
                           const CudaNormWeights& weights, double epsilon,
                           float* map, void* stream) {
  const auto blocks = static_cast<unsigned>((shape.channels + 255) / 256);
  running_map<<<blocks, 256, 0, as_stream(stream)>>>(
      shape.channels, weights, static_cast<float>(epsilon), map);
  check_launch("batch norm");
}

void cuda_norm_apply(const CudaNormShape& shape, const void* x,
                     const float* map, const void* addend, bool relu, void* y,
                     void* stream) {
  with_type(shape.bfloat16, [&]<typename T>(T*) {
    const auto launch = [&](auto kernel) {
      kernel<<<grid_of(shape, kApplyBlocks), kThreads, 0, as_stream(stream)>>>(
          shape.rows, shape.channels, static_cast<const T*>(x), map,
          static_cast<const T*>(addend), static_cast<T*>(y));
    };
    if (addend != nullptr) {
      launch(relu ? apply<T, true, true> : apply<T, true, false>);
    } else {
      launch(relu ? apply<T, false, true> : apply<T, false, false>);
    }
  });
  check_launch("batch norm");
}

void cuda_norm_gradient_map(const CudaNormShape& shape,
                            const CudaNormGradient& gradient, const void* x,
                            const float* map, const CudaNormWeights& weights,
                            bool training, const CudaNormScratch& scratch,
                            void* masked, float* result, void* stream) {
  with_type(shape.bfloat16, [&]<typename T>(T*) {
    with_mask(gradient, [&]<Mask kMask>(MaskOf<kMask>) {
      const auto launch = [&](auto kernel) {
        kernel<<<grid_of(shape, kSumBlocks), kThreads, 0, as_stream(stream)>>>(
            shape.rows, shape.channels, gradient_of<T>(gradient, x, map),
            weights, training, scratch, static_cast<T*>(masked), result);
      };
      launch(masked != nullptr ? gradient_map<T, kMask, true>
                               : gradient_map<T, kMask, false>);
    });
  });
  check_launch("batch norm, backward");
}

void cuda_norm_input_gradient(const CudaNormShape& shape,
                              const CudaNormGradient& gradient, const void* x,
                              const float* map, const float* gradient_map,
                              const void* addend, void* dx, void* stream) {
  with_type(shape.bfloat16, [&]<typename T>(T*) {
    with_mask(gradient, [&]<Mask kMask>(MaskOf<kMask>) {
      const auto launch = [&](auto kernel) {
        kernel<<<grid_of(shape, kApplyBlocks), kThreads, 0,
                 as_stream(stream)>>>(
            shape.rows, shape.channels, gradient_of<T>(gradient, x, map),
            gradient_map, static_cast<const T*>(addend), static_cast<T*>(dx));
      };
      launch(addend != nullptr ? input_gradient<T, kMask, true>
                               : input_gradient<T, kMask, false>);
    });
  });
  check_launch("batch norm, backward");
}

}  // namespace dtune
