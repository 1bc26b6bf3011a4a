#include "dtune/nn/mask.h"

#include <cmath>
#include <vector>

#include "dtune/base/random.h"

namespace dtune {
namespace {

// lowbias32 (Wellons 2018, github.com/skeeto/hash-prospector): a bijection of
// 32 bits whose output bits each depend on all input bits. The factors:
constexpr uint32_t kFirst = 0x7feb352dU;
constexpr uint32_t kSecond = 0x846ca68bU;

uint32_t scramble(uint32_t x) {
  x = (x ^ (x >> 16)) * kFirst;
  x = (x ^ (x >> 15)) * kSecond;
  return x ^ (x >> 16);
}

std::vector<uint32_t> sample_keys(const MaskKey& key, int64_t samples) {
  std::vector<uint32_t> keys(static_cast<size_t>(samples));
  for (int64_t n = 0; n < samples; ++n) {
    const auto position = static_cast<uint64_t>(key.first_sample + n);
    keys[static_cast<size_t>(n)] =
        static_cast<uint32_t>(mix_seed({key.seed, position}) >> 32);
  }
  return keys;
}

// Hashes below it are dropped; of 2^32.
uint64_t threshold_of(double drop) {
  return static_cast<uint64_t>(std::llround(drop * 0x1.0p32));
}

float scale_of(double drop) {
  return drop < 1 ? static_cast<float>(1 / (1 - drop)) : 0.0F;
}

void fill_on_cpu(float* mask, const std::vector<uint32_t>& keys,
                 uint32_t elements, double drop) {
  const uint64_t threshold = threshold_of(drop);
  if (threshold > UINT32_MAX) return;  // all dropped: stays zero
  const auto limit = static_cast<uint32_t>(threshold);
  const float scale = scale_of(drop);
  for (const uint32_t key : keys) {
    for (uint32_t e = 0; e < elements; ++e) {
      mask[e] = scramble(scramble(e) ^ key) >= limit ? scale : 0.0F;
    }
    mask += elements;
  }
}

// The same in 64-bit integers, of which every ATen device has what it takes.
at::Tensor scramble(at::Tensor x) {
  constexpr int64_t kLow = 0xffffffff;
  x = at::bitwise_xor(x, at::bitwise_right_shift(x, 16))
          .mul_(int64_t{kFirst})
          .bitwise_and_(kLow);
  x = at::bitwise_xor(x, at::bitwise_right_shift(x, 15))
          .mul_(int64_t{kSecond})
          .bitwise_and_(kLow);
  return at::bitwise_xor(x, at::bitwise_right_shift(x, 16));
}

at::Tensor mask_on_device(const at::Tensor& x,
                          const std::vector<uint32_t>& keys, double drop) {
  const auto integers = at::TensorOptions(at::kLong).device(x.device());
  const int64_t samples = x.size(0);
  const std::vector<int64_t> wide(keys.begin(), keys.end());
  const at::Tensor key = at::tensor(wide).to(x.device()).view({samples, 1});
  const at::Tensor element = at::arange(x.numel() / samples, integers);
  const at::Tensor hash = scramble(at::bitwise_xor(scramble(element), key));
  const auto threshold = static_cast<int64_t>(threshold_of(drop));
  return hash.ge(threshold).to(at::kFloat).mul_(scale_of(drop));
}

}  // namespace

at::Tensor dropout_mask(const at::Tensor& x, const MaskKey& key) {
  const bool image = x.dim() == 4;
  at::Tensor mask = at::zeros_like(
      x, x.options().dtype(at::kFloat),
      image ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  if (x.numel() == 0) return mask;
  const std::vector<uint32_t> keys = sample_keys(key, x.size(0));
  // As [N, elements of a sample in memory order].
  at::Tensor rows = image ? mask.permute({0, 2, 3, 1}) : mask;
  rows = rows.view({x.size(0), -1});
  if (x.is_cpu()) {
    fill_on_cpu(rows.data_ptr<float>(), keys,
                static_cast<uint32_t>(rows.size(1)), key.drop);
  } else {
    rows.copy_(mask_on_device(rows, keys, key.drop));
  }
  return mask;
}

at::Tensor dropout_mask_by_aten(const at::Tensor& rows, const MaskKey& key) {
  return mask_on_device(rows, sample_keys(key, rows.size(0)), key.drop);
}

}  // namespace dtune
