// dtune bench: what it can measure, one file each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/console.h"

namespace dtune {

// The options of every benchmark; each says which it reads.
struct BenchOptions {
  std::string what;  // "comm"
  bool json = false;
  // comm
  std::string from;
  std::string to;
  std::optional<uint64_t> iterations;
  std::optional<uint64_t> ranks;
  std::vector<std::string> transports;
  bool exact = false;
};

int bench_comm(const Console& console, const BenchOptions& options);

}  // namespace dtune
