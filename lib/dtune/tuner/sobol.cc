#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/tuner/sequence.h"
#include "dtune/tuner/sobol_table.h"

namespace dtune {
namespace {

constexpr int kBits = 32;
static_assert(std::size(kSobolTable) + 1 == kSobolDimensions);

using Directions = std::array<uint32_t, kBits>;

// v_k = m_k / 2^k as 32-bit fractions. With the polynomial
// x^s + a_1 x^(s-1) + ... + a_(s-1) x + 1 (Joe and Kuo 2008, eq. 2):
//   m_k = 2 a_1 m_(k-1) ^ ... ^ 2^(s-1) a_(s-1) m_(k-s+1)
//         ^ 2^s m_(k-s) ^ m_(k-s)
Directions make_directions(size_t dimension) {
  Directions v{};
  if (dimension == 0) {  // van der Corput's sequence
    for (int k = 0; k < kBits; ++k) v[k] = 1U << (kBits - 1 - k);
    return v;
  }
  const SobolDimension& row = kSobolTable[dimension - 1];
  const int degree = std::bit_width(row.polynomial) - 1;
  std::array<uint32_t, kBits> m{};
  for (int k = 0; k < kBits; ++k) {
    if (k < degree) {
      m[k] = row.initial[k];
    } else {
      m[k] = m[k - degree];
      for (int i = 1; i <= degree; ++i) {
        const bool coefficient = ((row.polynomial >> (degree - i)) & 1U) != 0;
        if (coefficient) m[k] ^= m[k - i] << i;
      }
    }
    v[k] = m[k] << (kBits - 1 - k);
  }
  return v;
}

uint32_t reverse_bits(uint32_t x) {
  x = ((x >> 1) & 0x55555555U) | ((x & 0x55555555U) << 1);
  x = ((x >> 2) & 0x33333333U) | ((x & 0x33333333U) << 2);
  x = ((x >> 4) & 0x0f0f0f0fU) | ((x & 0x0f0f0f0fU) << 4);
  x = ((x >> 8) & 0x00ff00ffU) | ((x & 0x00ff00ffU) << 8);
  return (x >> 16) | (x << 16);
}

// Laine and Karras' hash, with Vegdahl's constants as in Burley 2020, section
// 4: each bit is flipped by a function of the bits below it, i.e. (reversed) of
// the digits before it: that is nested uniform scrambling.
uint32_t owen_scramble(uint32_t x, uint32_t seed) {
  x = reverse_bits(x);
  x ^= x * 0x3d20adeaU;
  x += seed;
  x *= (seed >> 16) | 1U;
  x ^= x * 0x05526c56U;
  x ^= x * 0x53a22864U;
  return reverse_bits(x);
}

class SobolSequence final : public Sequence {
 public:
  SobolSequence(size_t dimensions, uint64_t seed) : seed_(seed) {
    for (size_t d = 0; d < std::min(dimensions, kSobolDimensions); ++d) {
      directions_.push_back(make_directions(d));
      scrambles_.push_back(
          static_cast<uint32_t>(mix_seed({seed, hash_text("sobol"), d})));
    }
  }

  void point(uint64_t index, std::span<double> unit) const override {
    for (size_t d = 0; d < directions_.size(); ++d) {
      uint32_t x = 0;
      for (int k = 0; k < kBits; ++k) {
        if (((index >> k) & 1U) != 0) x ^= directions_[d][k];
      }
      unit[d] = static_cast<double>(owen_scramble(x, scrambles_[d])) * 0x1p-32;
    }
    for (size_t d = directions_.size(); d < unit.size(); ++d) {
      unit[d] = Rng(mix_seed({seed_, index, d})).uniform();
    }
  }

 private:
  uint64_t seed_;
  std::vector<Directions> directions_;
  std::vector<uint32_t> scrambles_;
};

}  // namespace

std::unique_ptr<Sequence> make_sobol_sequence(size_t dimensions,
                                              uint64_t seed) {
  return std::make_unique<SobolSequence>(dimensions, seed);
}

}  // namespace dtune
