// Weights' files that were changed in places: each is loaded, or refused as
// Error(data). The first byte says which kind of file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "edited.h"
#include "surrogate/tiny_cubes.h"

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/speed/speed_lstm.h"
#include "dtune/surrogate/conv_lstm.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own
using Bytes = std::span<const std::byte>;

struct Kind {
  std::string whole;
  std::function<void(Bytes)> load;
};

std::vector<Kind> make_kinds() {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "file";
  std::vector<Kind> kinds;
  tiny_prior(2).save(path, "a fuzz target");
  kinds.push_back({read_file(path),
                   [](Bytes bytes) { LearntPrior::load(bytes, "input"); }});
  ConvLstm({.hidden = 4, .head = 16}, 1).save(path, {});
  kinds.push_back({read_file(path),
                   [](Bytes bytes) { ConvLstm::from_bytes(bytes, "input"); }});
  SpeedLstm(2, 1).save(path, "a fuzz target");
  kinds.push_back({read_file(path),
                   [](Bytes bytes) { SpeedLstm::from_bytes(bytes, "input"); }});
  return kinds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Kind> kinds = make_kinds();
  if (size == 0) return 0;
  const Kind& kind = kinds[data[0] % kinds.size()];
  const fuzz::Edited file(kind.whole, {data + 1, size - 1});
  try {
    kind.load(file.bytes());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) std::abort();
  }
  return 0;
}
