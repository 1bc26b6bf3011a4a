// For .cu files: 16 bytes of a tensor in a thread's registers, and errors.
#pragma once

#include <cstdint>
#include <string>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "dtune/base/error.h"

namespace dtune {

inline void check_launch(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  throw Error(ErrorKind::trial,
              std::string(what) + ": " + cudaGetErrorString(error));
}

inline cudaStream_t as_stream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

// Calls with a null pointer of the type that the tensors have.
template <typename Function>
void with_type(bool bfloat16, const Function& function) {
  if (bfloat16) {
    function(static_cast<__nv_bfloat16*>(nullptr));
  } else {
    function(static_cast<float*>(nullptr));
  }
}

// Several values of a type, which are loaded and stored as one.
template <typename T>
struct Pack;

template <>
struct Pack<float> {
  static constexpr int kSize = 4;
  float4 raw;

  __device__ void load(const float* from) {
    raw = *reinterpret_cast<const float4*>(from);
  }
  __device__ void store(float* to) const {
    *reinterpret_cast<float4*>(to) = raw;
  }
  __device__ void get(float (&v)[kSize]) const {
    v[0] = raw.x;
    v[1] = raw.y;
    v[2] = raw.z;
    v[3] = raw.w;
  }
  __device__ void set(const float (&v)[kSize]) {
    raw = make_float4(v[0], v[1], v[2], v[3]);
  }
};

template <>
struct Pack<__nv_bfloat16> {
  static constexpr int kSize = 8;
  uint4 raw;

  __device__ void load(const __nv_bfloat16* from) {
    raw = *reinterpret_cast<const uint4*>(from);
  }
  __device__ void store(__nv_bfloat16* to) const {
    *reinterpret_cast<uint4*>(to) = raw;
  }
  // A bfloat16 is the upper half of a float.
  __device__ void get(float (&v)[kSize]) const {
    const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[2 * i] = __uint_as_float(words[i] << 16);
      v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
    }
  }
  __device__ void set(const float (&v)[kSize]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
      words[i] = *reinterpret_cast<const unsigned*>(&pair);
    }
    raw = make_uint4(words[0], words[1], words[2], words[3]);
  }
};

}  // namespace dtune
