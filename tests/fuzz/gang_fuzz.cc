// The decoder of gangs' messages: whatever the bytes, a message or Error(comm);
// what it accepts must read back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dtune/base/error.h"
#include "dtune/gang/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtune::gang::Packet packet;
  try {
    packet = dtune::gang::decode({reinterpret_cast<const char*>(data), size});
  } catch (const dtune::Error& e) {
    if (e.kind() != dtune::ErrorKind::comm) std::abort();
    return 0;
  }
  const std::string once = dtune::gang::encode(packet);
  if (dtune::gang::encode(dtune::gang::decode(once)) != once) std::abort();
  return 0;
}
