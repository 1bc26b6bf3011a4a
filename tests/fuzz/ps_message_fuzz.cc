// The decoder of the parameter server's messages: whatever the bytes, a message
// or Error(comm); what it accepts must read back as the same bytes. Input: the
// first frame, and after a line "\n--\n" the second.
#include <cstdlib>
#include <string>
#include <string_view>

#include "dtune/base/error.h"
#include "dtune/parameter_server/ps_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kCut = "\n--\n";
  const size_t cut = input.find(kCut);
  dtune::Frames frames = {std::string(input.substr(0, cut))};
  if (cut != std::string_view::npos) {
    frames.emplace_back(input.substr(cut + kCut.size()));
  }
  try {
    const dtune::ps::Message message = dtune::ps::decode(frames);
    if (dtune::ps::encode(message) != frames) std::abort();
  } catch (const dtune::Error& e) {
    if (e.kind() != dtune::ErrorKind::comm) std::abort();
  }
  return 0;
}
