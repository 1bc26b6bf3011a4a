// The bytes of a fuzz input as choices, one after the other: what a target does
// next is up to them. When they are used up, every choice is 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtune::fuzz {

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : bytes_(data, size) {}

  bool done() const { return at_ >= bytes_.size(); }
  uint8_t byte() { return done() ? uint8_t{0} : bytes_[at_++]; }
  // 0 .. bound - 1. REQUIRES: bound > 0.
  uint64_t below(uint64_t bound) { return byte() % bound; }
  // Once in `times`.
  bool rarely(uint64_t times) { return below(times) == times - 1; }

  // Small ones, mostly; else one at which arithmetic goes wrong.
  int64_t number() {
    constexpr std::array<int64_t, 12> kTelling = {
        -1,      INT64_MAX, INT64_MIN, INT32_MAX,     INT32_MIN,
        1 << 16, 1LL << 32, 1LL << 53, 1'000'000'000, 0x7fffffffLL + 1,
        255,     4096};
    if (rarely(8)) return kTelling[below(kTelling.size())];
    return static_cast<int64_t>(below(8));
  }
  double real() {
    constexpr std::array<double, 8> kTelling = {0,     1,      0.5,    -1,
                                                1e308, -1e308, 1e-308, 1e9};
    return kTelling[below(kTelling.size())];
  }
  std::string text() {
    return std::string(below(5), static_cast<char>('a' + below(3)));
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

}  // namespace dtune::fuzz
