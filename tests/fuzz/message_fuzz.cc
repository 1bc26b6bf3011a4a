// The decoder of the control plane: whatever the bytes, a message or
// Error(comm); what it accepts must read back as the same.
#include <cstdlib>
#include <string_view>

#include "dtune/base/error.h"
#include "dtune/cluster/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtune::control::Message message;
  try {
    message = dtune::decode({reinterpret_cast<const char*>(data), size});
  } catch (const dtune::Error& e) {
    if (e.kind() != dtune::ErrorKind::comm) std::abort();
    return 0;
  }
  const std::string once = dtune::encode(message);
  if (dtune::encode(dtune::decode(once)) != once) std::abort();
  return 0;
}
