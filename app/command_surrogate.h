// What `dtune surrogate train` and `dtune surrogate eval` have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/console.h"

#include "dtune/curves/recorded_curves.h"

namespace dtune {

struct SurrogateOptions {
  std::string action;
  std::vector<std::string> curves;
  std::string output_prior;
  std::string output_network;
  std::string prior;
  std::string network;
  std::vector<std::string> leave_out;
  std::optional<uint64_t> minutes;
  std::optional<uint64_t> samples;
  std::optional<uint64_t> studies;
  std::optional<uint64_t> threads;
  std::optional<uint64_t> seed;
  std::optional<uint64_t> hidden;
  bool prior_only = false;
  bool leave_out_own = false;
  bool allow_seen = false;
};

bool contains(const std::vector<std::string>& names, const std::string& name);
// Of all files. Throws Error(data), or Error(config) for tasks in `leave_out`
// that no file has.
std::vector<RecordedCurves> read_all_curves(const SurrogateOptions& options);
unsigned thread_count(const SurrogateOptions& options);

int eval_surrogate(const Console& console, const SurrogateOptions& options);

}  // namespace dtune
