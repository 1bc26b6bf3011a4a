// What a tuned program prints, in pieces of any size.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dtune/cluster/command_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t piece = size == 0 ? 1 : 1 + data[0];
  dtune::LineBuffer lines;
  const auto take = [&](bool rest) {
    while (const auto line = lines.next(rest)) {
      if (line->size() > 65536) std::abort();
      const auto said = dtune::parse_command_line(*line, "val_accuracy");
      if (!said || !said->step) continue;
      if (*said->step < 1 || *said->step > 1'000'000'000) std::abort();
    }
  };
  for (size_t at = 0; at < size; at += piece) {
    lines.add(text.substr(at, piece));
    take(false);
  }
  take(true);
  return 0;
}
