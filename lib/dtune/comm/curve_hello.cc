#include "dtune/comm/curve_hello.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <sodium.h>
#include <zmq.h>

namespace dtune::curve_hello {
namespace {

// Signature, version 3.1, mechanism, as-server; zeros fill it up.
constexpr size_t kMechanism = 12;
constexpr size_t kAsServer = 32;
constexpr std::string_view kCurve{"CURVE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20};

// Within HELLO's frame: flags and size, then the command.
constexpr std::string_view kCommand{"\x04\xc8\x05HELLO\x01\x00", 10};
constexpr size_t kClientKey = 2 + 80;
constexpr size_t kNonce = kClientKey + crypto_box_PUBLICKEYBYTES;
constexpr size_t kNonceBytes = 8;
constexpr size_t kBox = kNonce + kNonceBytes;
constexpr size_t kBoxBytes = crypto_box_MACBYTES + 64;
constexpr std::string_view kNonceBegin = "CurveZMQHELLO---";

static_assert(kGreetingBytes + kBox + kBoxBytes == kBytes);
static_assert(kNonceBegin.size() + kNonceBytes == crypto_box_NONCEBYTES);

constexpr std::array<char, kGreetingBytes> make_greeting() {
  std::array<char, kGreetingBytes> text{};
  text[0] = '\xff';
  text[8] = 1;
  text[9] = '\x7f';
  text[10] = 3;
  text[11] = 1;
  for (size_t i = 0; i < kCurve.size(); ++i) text[kMechanism + i] = kCurve[i];
  text[kAsServer] = 1;
  return text;
}

// Whether they agree where `bytes` reaches into the part that begins at `at`.
bool agrees(std::string_view bytes, size_t at, std::string_view part) {
  if (bytes.size() <= at) return true;
  const std::string_view there = bytes.substr(at, part.size());
  return part.starts_with(there);
}

const unsigned char* bytes_at(std::string_view text, size_t at) {
  return reinterpret_cast<const unsigned char*>(text.data()) + at;
}

}  // namespace

std::string_view server_greeting() {
  static constexpr std::array<char, kGreetingBytes> text = make_greeting();
  return {text.data(), text.size()};
}

bool may_begin(std::string_view bytes) {
  return agrees(bytes, 0, "\xff") && agrees(bytes, 9, "\x7f") &&
         agrees(bytes, 10, "\x03") && agrees(bytes, kMechanism, kCurve) &&
         agrees(bytes, kGreetingBytes, kCommand);
}

bool is_for(std::string_view bytes, const std::string& secret_key) {
  if (bytes.size() != kBytes || !may_begin(bytes)) return false;
  std::array<unsigned char, crypto_box_SECRETKEYBYTES> secret{};
  if (zmq_z85_decode(secret.data(), secret_key.c_str()) == nullptr) {
    return false;
  }
  const std::string_view hello = bytes.substr(kGreetingBytes);
  std::array<unsigned char, crypto_box_NONCEBYTES> nonce{};
  std::memcpy(nonce.data(), kNonceBegin.data(), kNonceBegin.size());
  std::memcpy(nonce.data() + kNonceBegin.size(), bytes_at(hello, kNonce),
              kNonceBytes);
  std::array<unsigned char, kBoxBytes - crypto_box_MACBYTES> zeros{};
  const bool opened =
      crypto_box_open_easy(zeros.data(), bytes_at(hello, kBox), kBoxBytes,
                           nonce.data(), bytes_at(hello, kClientKey),
                           secret.data()) == 0;
  sodium_memzero(secret.data(), secret.size());
  return opened;
}

}  // namespace dtune::curve_hello
