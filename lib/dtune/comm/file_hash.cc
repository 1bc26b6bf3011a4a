#include "dtune/comm/file_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dtune {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;

// Little-endian, whatever the machine is: the sum travels.
template <class T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (size_t i = 0; i < sizeof value; ++i) {
      swapped = T(swapped << 8 | (value >> (8 * i) & 0xff));
    }
    return swapped;
  }
  return value;
}

uint64_t mix(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

uint64_t merge(uint64_t hash, uint64_t lane) {
  return (hash ^ mix(0, lane)) * kPrime1 + kPrime4;
}

// What is left behind the last whole stripe.
uint64_t add_tail(uint64_t hash, std::string_view tail) {
  while (tail.size() >= 8) {
    hash ^= mix(0, load<uint64_t>(tail.data()));
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
    tail.remove_prefix(8);
  }
  if (tail.size() >= 4) {
    hash ^= load<uint32_t>(tail.data()) * kPrime1;
    hash = std::rotl(hash, 23) * kPrime2 + kPrime3;
    tail.remove_prefix(4);
  }
  for (const char byte : tail) {
    hash ^= static_cast<unsigned char>(byte) * kPrime5;
    hash = std::rotl(hash, 11) * kPrime1;
  }
  return hash;
}

}  // namespace

void FileHash::stripe(const char* bytes) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i] = mix(lanes_[i], load<uint64_t>(bytes + 8 * i));
  }
}

void FileHash::add(std::string_view bytes) {
  const size_t held = total_ % kStripe;
  total_ += bytes.size();
  if (held > 0) {
    const size_t n = std::min(bytes.size(), kStripe - held);
    std::memcpy(pending_.data() + held, bytes.data(), n);
    bytes.remove_prefix(n);
    if (held + n < kStripe) return;
    stripe(pending_.data());
  }
  while (bytes.size() >= kStripe) {
    stripe(bytes.data());
    bytes.remove_prefix(kStripe);
  }
  if (!bytes.empty()) std::memcpy(pending_.data(), bytes.data(), bytes.size());
}

uint64_t FileHash::value() const {
  uint64_t hash = kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) +
           std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash = add_tail(hash + total_, {pending_.data(), total_ % kStripe});
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

uint64_t file_hash(std::string_view bytes) {
  FileHash hash;
  hash.add(bytes);
  return hash.value();
}

}  // namespace dtune
