#include "dtune/cluster/capability.h"

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <sys/random.h>

#include "dtune/base/error.h"

namespace dtune {

std::string new_capability() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorKind::temporary, "random numbers: " + errno_text(errno));
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace dtune
