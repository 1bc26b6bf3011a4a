// Random faults in virtual time.
#include <cstdlib>
#include <string>

#include "gang/simulated_gang.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

// DTUNE_GANG_SEEDS: how many schedules; more for a longer search.
uint64_t seeds() {
  const char* text = std::getenv("DTUNE_GANG_SEEDS");
  return text != nullptr ? std::stoull(text) : 400;
}

// At least `share` of the gangs must come to their end; the others have closed,
// since no member was left, or none that had the newest state.
void run_all(const simulated::Setting& base, double share) {
  uint64_t finished = 0;
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    simulated::Setting setting = base;
    setting.seed = seed;
    setting.ranks = 1 + static_cast<int>(seed % 6);
    setting.speeds = {10'000, 2'500, 9'000};
    simulated::Gang gang(setting);
    gang.run(std::chrono::seconds(900));
    REQUIRE(gang.problem == "");
    if (gang.committed == setting.steps) ++finished;
  }
  CHECK(static_cast<double>(finished) >= share * static_cast<double>(seeds()));
}

}  // namespace

TEST_CASE("no fault leaves every sample trained once") { run_all({}, 1); }

TEST_CASE("spikes and suspensions lose no sample and stop no other") {
  simulated::Setting setting;
  setting.faults = {.suspend = 0.01, .spike = 0.03, .repeat = 0.05};
  run_all(setting, 0.98);
}

TEST_CASE("cut connections and torn operations lose no sample") {
  simulated::Setting setting;
  setting.faults = {.cut_off = 0.01, .tear = 0.03, .repeat = 0.05};
  run_all(setting, 0.95);
}

TEST_CASE("deaths at any time leave a gang that goes on or has closed") {
  simulated::Setting setting;
  setting.faults = {.kill = 0.01,
                    .suspend = 0.005,
                    .spike = 0.02,
                    .cut_off = 0.005,
                    .tear = 0.01,
                    .repeat = 0.05,
                    .restart = 0.7};
  run_all(setting, 0.8);
}

}  // namespace dtune
