#include "dtune/base/random.h"

#include <cmath>
#include <numbers>

namespace dtune {
namespace {

uint64_t splitmix(uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t rotate_left(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

// Acklam's coefficients: central region and tails.
constexpr double kA[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                         -2.759285104469687e+02, 1.383577518672690e+02,
                         -3.066479806614716e+01, 2.506628277459239e+00};
constexpr double kB[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                         -1.556989798598866e+02, 6.680131188771972e+01,
                         -1.328068155288572e+01};
constexpr double kC[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                         -2.400758277161838e+00, -2.549732539343734e+00,
                         4.374664141464968e+00,  2.938163982698783e+00};
constexpr double kD[] = {7.784695709041462e-03, 3.224671290700398e-01,
                         2.445134137142996e+00, 3.754408661907416e+00};

double tail_quantile(double q) {
  return (((((kC[0] * q + kC[1]) * q + kC[2]) * q + kC[3]) * q + kC[4]) * q +
          kC[5]) /
         ((((kD[0] * q + kD[1]) * q + kD[2]) * q + kD[3]) * q + 1);
}

double rough_quantile(double p) {
  constexpr double kLow = 0.02425;
  if (p < kLow) return tail_quantile(std::sqrt(-2 * std::log(p)));
  if (p > 1 - kLow) return -tail_quantile(std::sqrt(-2 * std::log(1 - p)));
  const double q = p - 0.5;
  const double r = q * q;
  return (((((kA[0] * r + kA[1]) * r + kA[2]) * r + kA[3]) * r + kA[4]) * r +
          kA[5]) *
         q /
         (((((kB[0] * r + kB[1]) * r + kB[2]) * r + kB[3]) * r + kB[4]) * r +
          1);
}

}  // namespace

uint64_t mix_seed(std::initializer_list<uint64_t> parts) {
  uint64_t state = 0x6474756e65ULL;  // "dtune"
  for (const uint64_t part : parts) {
    state ^= part;
    state = splitmix(state);
  }
  return state;
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

Rng::Rng(uint64_t seed) : state_{} {
  for (uint64_t& word : state_) word = splitmix(seed);
}

uint64_t Rng::operator()() {
  const uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

double Rng::uniform() {
  return static_cast<double>((*this)() >> 11) * 0x1.0p-53;
}

double Rng::uniform(double low, double high) {
  return low + (high - low) * uniform();
}

uint64_t Rng::below(uint64_t bound) {
  // Rejects the few values that would favour small results.
  const uint64_t limit = max() - max() % bound;
  uint64_t value = (*this)();
  while (value >= limit) value = (*this)();
  return value % bound;
}

double Rng::normal() {
  double u = uniform();
  while (u <= 0) u = uniform();
  return normal_quantile(u);
}

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double normal_quantile(double p) {
  const double x = rough_quantile(p);
  constexpr double kOverflow = 37.5;  // exp(x x / 2) nears the largest double
  if (std::abs(x) > kOverflow) return x;
  const double error = normal_cdf(x) - p;
  const double u =
      error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - u / (1 + x * u / 2);
}

}  // namespace dtune
