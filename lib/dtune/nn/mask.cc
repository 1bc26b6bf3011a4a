#include "dtune/nn/mask.h"

#include <cmath>
#include <vector>

#include <c10/core/ScalarType.h>

#include "dtune/base/random.h"
#include "dtune/nn/transfer.h"

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

// [samples, networks].
void fill_keys(std::span<const MaskKey> keys, int64_t samples, int64_t* out) {
  const size_t networks = keys.size();
  for (size_t k = 0; k < networks; ++k) {
    const std::vector<uint32_t> own = sample_keys(keys[k], samples);
    for (size_t n = 0; n < own.size(); ++n) out[n * networks + k] = own[n];
  }
}

template <typename Number, typename Of>
at::Tensor for_each_rate(std::span<const double> drops,
                         const at::Device& device, const Of& of) {
  const at::Tensor host =
      host_tensor({1, 1, static_cast<int64_t>(drops.size()), 1},
                  c10::CppTypeToScalarType<Number>::value, device);
  auto* out = host.data_ptr<Number>();
  for (const double drop : drops) *out++ = of(drop);
  return send(host, device);
}

}  // namespace

at::Tensor dropout_mask(const at::Tensor& x, const MaskKey& key) {
  if (!x.is_cpu()) return dropout_masks(x, {&key, 1});
  const bool image = x.dim() == 4;
  at::Tensor mask = at::zeros_like(
      x, x.options().dtype(at::kFloat),
      image ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  if (x.numel() == 0) return mask;
  const std::vector<uint32_t> keys = sample_keys(key, x.size(0));
  fill_on_cpu(mask.data_ptr<float>(), keys,
              static_cast<uint32_t>(x.numel() / x.size(0)), key.drop);
  return mask;
}

at::Tensor dropout_masks(const at::Tensor& x, std::span<const MaskKey> keys) {
  const int64_t samples = x.size(0);
  const at::Tensor host = host_tensor(
      {samples, static_cast<int64_t>(keys.size())}, at::kLong, x.device());
  fill_keys(keys, samples, host.data_ptr<int64_t>());
  std::vector<double> drops;
  drops.reserve(keys.size());
  for (const MaskKey& key : keys) drops.push_back(key.drop);
  return dropout_masks(x, send(host, x.device()),
                       mask_rates(drops, x.device()));
}

MaskRates mask_rates(std::span<const double> drops, const at::Device& device) {
  return {
      for_each_rate<int64_t>(
          drops, device,
          [](double drop) { return static_cast<int64_t>(threshold_of(drop)); }),
      for_each_rate<float>(drops, device, scale_of)};
}

uint64_t mask_seed(uint64_t pass_seed, const std::string& layer) {
  return mix_seed({pass_seed, hash_text(layer)});
}

at::Tensor batch_mask_keys(const std::vector<std::string>& layers,
                           std::span<const uint64_t> pass_seeds,
                           int64_t samples, const at::Device& device) {
  const auto networks = static_cast<int64_t>(pass_seeds.size());
  const at::Tensor host =
      host_tensor({static_cast<int64_t>(layers.size()), samples, networks},
                  at::kLong, device);
  auto* out = host.data_ptr<int64_t>();
  for (const std::string& layer : layers) {
    std::vector<MaskKey> keys;
    keys.reserve(pass_seeds.size());
    for (const uint64_t seed : pass_seeds) {
      keys.push_back({.seed = mask_seed(seed, layer)});
    }
    fill_keys(keys, samples, out);
    out += samples * networks;
  }
  return host;
}

at::Tensor dropout_masks(const at::Tensor& x, const at::Tensor& keys,
                         const MaskRates& rates) {
  const bool image = x.dim() == 4;
  const int64_t area = image ? x.size(2) * x.size(3) : 1;
  const int64_t channels = x.size(1) / keys.size(1);
  const at::Tensor element =
      at::arange(area * channels,
                 at::TensorOptions(at::kLong).device(x.device()))
          .view({1, area, 1, channels});
  const at::Tensor key = keys.unsqueeze(1).unsqueeze(3);
  const at::Tensor hash = scramble(at::bitwise_xor(scramble(element), key));
  // [N, H W, networks, C]: what channels-last images are in memory.
  const at::Tensor mask =
      hash.ge(rates.limits).to(at::kFloat).mul_(rates.scales);
  if (!image) return mask.view({x.size(0), x.size(1)});
  return mask.view({x.size(0), x.size(2), x.size(3), x.size(1)})
      .permute({0, 3, 1, 2});
}

}  // namespace dtune
