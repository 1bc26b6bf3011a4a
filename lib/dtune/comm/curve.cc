#include "dtune/comm/curve.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>
#include <zmq.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr size_t kKeyCharacters = 40;
constexpr size_t kKeyBytes = 32;

constexpr std::string_view kZ85 =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<"
    ">()[]{}@%$#";

}  // namespace

bool has_curve() { return zmq_has("curve") != 0; }

CurveKeys generate_curve_keys() {
  std::array<char, kKeyCharacters + 1> public_key{};
  std::array<char, kKeyCharacters + 1> secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    throw Error(ErrorKind::config,
                "this ZeroMQ library has no CURVE security (install one that "
                "was built with libsodium)");
  }
  return {public_key.data(), secret_key.data()};
}

std::string public_key_of(const std::string& secret_key) {
  std::array<char, kKeyCharacters + 1> public_key{};
  if (!is_curve_key(secret_key) ||
      zmq_curve_public(public_key.data(), secret_key.c_str()) != 0) {
    throw Error(ErrorKind::config,
                "this is not a secret key (40 characters of Z85; "
                "make one with: dtune keygen)");
  }
  return public_key.data();
}

bool is_curve_key(std::string_view text) {
  if (text.size() != kKeyCharacters) return false;
  const bool known = std::all_of(text.begin(), text.end(), [](char c) {
    return kZ85.find(c) != std::string_view::npos;
  });
  if (!known) return false;
  // Five characters can say more than four bytes can hold.
  std::array<uint8_t, kKeyBytes> bytes{};
  return zmq_z85_decode(bytes.data(), std::string(text).c_str()) != nullptr;
}

std::string hex_of_key(const std::string& key) {
  std::array<uint8_t, kKeyBytes> bytes{};
  if (!is_curve_key(key) ||
      zmq_z85_decode(bytes.data(), key.c_str()) == nullptr)
    throw Error(ErrorKind::config, "this is not a CURVE key");
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string key_of_hex(std::string_view hex) {
  std::array<uint8_t, kKeyBytes> bytes{};
  bool good = hex.size() == 2 * kKeyBytes;
  for (size_t i = 0; good && i < kKeyBytes; ++i) {
    const char* digits = hex.data() + 2 * i;
    const auto [stop, error] =
        std::from_chars(digits, digits + 2, bytes[i], 16);
    good = error == std::errc() && stop == digits + 2;
  }
  if (!good) throw Error(ErrorKind::config, "a key has 64 hexadecimal digits");
  std::array<char, kKeyCharacters + 1> text{};
  zmq_z85_encode(text.data(), bytes.data(), bytes.size());
  return text.data();
}

std::string short_key(std::string_view public_key) {
  return std::string(public_key.substr(0, 8)) + "...";
}

}  // namespace dtune
