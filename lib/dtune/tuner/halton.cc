#include <algorithm>
#include <numeric>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/tuner/sequence.h"

namespace dtune {
namespace {

std::vector<uint32_t> first_primes(size_t count) {
  std::vector<uint32_t> primes;
  for (uint32_t n = 2; primes.size() < count; ++n) {
    const bool prime = std::none_of(primes.begin(), primes.end(),
                                    [n](uint32_t p) { return n % p == 0; });
    if (prime) primes.push_back(n);
  }
  return primes;
}

// One coordinate: digit j of the index, permuted by the j-th permutation,
// weighs base^-(j+1). Digits go on until they no longer change a double.
class Radical {
 public:
  Radical(uint32_t base, uint64_t seed) : base_(base) {
    Rng rng(seed);
    for (double weight = 1; weight > 0x1p-53; weight /= base) {
      std::vector<uint32_t> permutation(base);
      std::iota(permutation.begin(), permutation.end(), 0);
      rng.shuffle(std::span(permutation));
      permutations_.push_back(std::move(permutation));
    }
  }

  double inverse(uint64_t index) const {
    double sum = 0;
    double weight = 1;
    for (const auto& permutation : permutations_) {
      weight /= base_;
      sum += weight * permutation[index % base_];
      index /= base_;
    }
    return std::min(sum, 1 - 0x1p-53);
  }

 private:
  uint32_t base_;
  std::vector<std::vector<uint32_t>> permutations_;
};

class HaltonSequence final : public Sequence {
 public:
  HaltonSequence(size_t dimensions, uint64_t seed) {
    for (const uint32_t prime : first_primes(dimensions)) {
      radicals_.emplace_back(prime,
                             mix_seed({seed, hash_text("halton"), prime}));
    }
  }

  void point(uint64_t index, std::span<double> unit) const override {
    for (size_t d = 0; d < radicals_.size(); ++d) {
      unit[d] = radicals_[d].inverse(index);
    }
  }

 private:
  std::vector<Radical> radicals_;
};

}  // namespace

std::unique_ptr<Sequence> make_halton_sequence(size_t dimensions,
                                               uint64_t seed) {
  return std::make_unique<HaltonSequence>(dimensions, seed);
}

}  // namespace dtune
