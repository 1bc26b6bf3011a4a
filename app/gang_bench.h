// Runs one gang on this machine, without a study: for `dtune bench train` and
// for benchmarks of what stragglers cost.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/config/recipe_file.h"
#include "dtune/gang/server.h"

namespace dtune {

// The parts of a rank's time, in the order of reports.
struct TimePart {
  const char* name;
  double gang::RoundTimes::*seconds;
};
inline constexpr TimePart kTimeParts[] = {
    {"data", &gang::RoundTimes::data},
    {"forward", &gang::RoundTimes::forward},
    {"backward", &gang::RoundTimes::backward},
    {"exposed", &gang::RoundTimes::exposed},
    {"waiting", &gang::RoundTimes::waiting},
    {"update", &gang::RoundTimes::update},
    {"other", &gang::RoundTimes::other},
};

// What is done to a rank while it trains.
struct Disturbance {
  enum class Kind {
    slow,   // runs 1 / `factor` of the time, in turns of some milliseconds
    spike,  // is stopped for `seconds`, every `every` seconds on average
    kill,   // is killed after `seconds` of the measured steps
  };
  Kind kind = Kind::slow;
  int member = 0;
  double factor = 1;
  double seconds = 0;
  double every = 0;
};

// Reads "2:4" (slow: rank 2, four times), "1:5:0.5" (spike: rank 1, every 5 s,
// for half a second), "3:2" (kill: rank 3 after 2 s). Throws Error(config);
// whether there is such a rank is not looked at.
Disturbance parse_disturbance(Disturbance::Kind kind, const std::string& text);

struct GangCase {
  RecipeFile recipe;  // its `parallel` says the gang; mode none: one process
  std::filesystem::path prepared_data;
  int warmup = 1;   // fidelity steps that do not count
  int steps = 1;    // that do
  int threads = 1;  // of a rank
  uint64_t seed = 0;
  // During the steps that count; of ranks that the gang has not: void.
  std::vector<Disturbance> disturbances;
  std::filesystem::path trace;  // "": none
  Duration patience = std::chrono::minutes(10);
};

struct GangRun {
  std::vector<double> steps;   // seconds of each, warm-up included
  std::vector<double> losses;  // of training, likewise; NaN: not told
  // Over the steps that count; empty where there was one process.
  std::vector<MemberStatus> members;
};

// Blocks. Throws Error(study) with what a rank said where all of them ended
// before the last step, or none of them got there in time.
GangRun run_gang(const GangCase& gang);

}  // namespace dtune
