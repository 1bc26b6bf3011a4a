// Seeds and random numbers that mean the same on every machine.
//
// Nothing in dtune shares a generator: each use of chance derives a key from
// the study's seed and from what the numbers are for (trial, step, decision),
// so a study replays whatever the order in which its parts ran.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace dtune {

// splitmix64's finaliser folded over the parts (Steele et al. 2014,
// doi 10.1145/2660193.2660195). Order matters; equal parts give equal seeds.
uint64_t mix_seed(std::initializer_list<uint64_t> parts);

// 64-bit FNV-1a of a text, to use a name as one part of a seed.
uint64_t hash_text(std::string_view text);

// xoshiro256** (Blackman and Vigna 2018, arXiv 1805.01407), seeded by
// splitmix64. Not thread-safe; cheap to copy. Satisfies
// UniformRandomBitGenerator, but the distributions of <random> differ between
// standard libraries: use the members below.
class Rng {
 public:
  using result_type = uint64_t;

  explicit Rng(uint64_t seed);

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  uint64_t operator()();

  double uniform();                         // [0, 1), 53 bits
  double uniform(double low, double high);  // [low, high)
  uint64_t below(uint64_t bound);           // [0, bound), unbiased; bound > 0
  double normal();                          // N(0, 1), by inversion

  // Fisher-Yates.
  template <typename T>
  void shuffle(std::span<T> items) {
    for (size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[below(i)]);
    }
  }

 private:
  uint64_t state_[4];
};

// Quantile of the standard normal distribution (Acklam's rational
// approximation with one step of Halley's method; relative error < 1e-13, and
// < 2e-9 below p = 1e-305). REQUIRES: 0 < p < 1.
double normal_quantile(double p);

// Cumulative distribution function of the standard normal distribution.
double normal_cdf(double x);

}  // namespace dtune
