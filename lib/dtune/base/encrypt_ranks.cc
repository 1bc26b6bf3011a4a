#include "dtune/base/encrypt_ranks.h"

#include <cstdlib>
#include <string_view>

namespace dtune {
namespace {

constexpr const char* kEncryptRanks = "DTUNE_ENCRYPT_RANKS";

}  // namespace

bool encrypts_ranks() {
  const char* text = std::getenv(kEncryptRanks);
  return text != nullptr && std::string_view(text) == "1";
}

void encrypt_ranks() {
  setenv(kEncryptRanks, "1", 1);  // NOLINT: no other thread runs yet
}

}  // namespace dtune
