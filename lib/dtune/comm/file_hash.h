// The check sum of transferred files: XXH64 with seed 0 (Yann Collet; the
// specification is doc/xxhash_spec.md of github.com/Cyan4973/xxHash). It finds
// damage and names contents; it is no defence against forgers, who have to
// pass the control plane's keys first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dtune {

// Takes bytes in pieces of any size. Some gigabytes a second.
class FileHash {
 public:
  void add(std::string_view bytes);
  // Of all that was added; more may be added afterwards.
  uint64_t value() const;

 private:
  static constexpr size_t kStripe = 32;

  void stripe(const char* bytes);

  std::array<uint64_t, 4> lanes_ = {0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0,
                                    0x61C8864E7A143579};
  std::array<char, kStripe> pending_{};  // the begin of a stripe
  uint64_t total_ = 0;
};

uint64_t file_hash(std::string_view bytes);

}  // namespace dtune
