// The messages of all conversations: whatever the bytes, a message or
// Error(comm); what is accepted must read back as the same. Input: the frames,
// with a line "\n--\n" between two.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dtune/base/error.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/file_protocol.h"
#include "dtune/gang/protocol.h"
#include "dtune/parameter_server/ps_protocol.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

Frames frames_of(std::string_view input) {
  constexpr std::string_view kCut = "\n--\n";
  Frames frames;
  while (true) {
    const size_t cut = input.find(kCut);
    frames.emplace_back(input.substr(0, cut));
    if (cut == std::string_view::npos) return frames;
    input.remove_prefix(cut + kCut.size());
  }
}

// `again` decodes frames and encodes what they mean.
template <class Again>
void check(const Frames& frames, Again again) {
  try {
    const Frames once = again(frames);
    if (again(once) != once) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::comm) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Frames frames = frames_of({reinterpret_cast<const char*>(data), size});
  check(frames, [](const Frames& f) { return Frames{encode(decode(f[0]))}; });
  check(frames, [](const Frames& f) {
    return Frames{gang::encode(gang::decode(f[0]))};
  });
  check(frames, [](const Frames& f) { return ps::encode(ps::decode(f)); });
  check(frames,
        [](const Frames& f) { return files::encode(files::decode(f)); });
  return 0;
}
