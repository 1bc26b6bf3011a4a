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
  std::string what;  // "comm", "train"
  // comm
  std::string from;
  std::string to;
  std::optional<uint64_t> iterations;
  std::optional<uint64_t> ranks;
  std::vector<std::string> transports;
  bool exact = false;
  // train
  std::string model;
  std::optional<uint64_t> image;
  std::optional<uint64_t> batch;
  std::optional<uint64_t> batches;
  std::optional<uint64_t> steps;
  std::string lr;
  std::vector<std::string> strategies;
  std::vector<std::string> slow;
  std::vector<std::string> spikes;
  std::vector<std::string> kills;
  bool unwatched = false;
  std::string trace;
};

int bench_comm(const Console& console, const BenchOptions& options);
int bench_train(const Console& console, const BenchOptions& options);

}  // namespace dtune
