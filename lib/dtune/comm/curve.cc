#include "dtune/comm/curve.h"

#include <algorithm>
#include <array>
#include <cstdint>

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
                "what should be a secret key is none (40 characters of Z85; "
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

std::string short_key(std::string_view public_key) {
  return std::string(public_key.substr(0, 8)) + "...";
}

}  // namespace dtune
