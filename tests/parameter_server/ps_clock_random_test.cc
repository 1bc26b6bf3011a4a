// A parameter server's clock under pushes, deaths and stops in random orders.
#include <algorithm>
#include <map>
#include <vector>

#include "ps_virtual.h"
#include <doctest/doctest.h>

#include "dtune/base/random.h"
#include "dtune/parameter_server/ps_clock.h"

using namespace dtune;

namespace {

// Pushes until the step is trained, each time by a random worker that has work.
// Returns the samples accepted, by number of acceptances.
struct Chaos {
  PsPlan plan;
  uint64_t seed = 1;
  bool deaths = false;
  bool stops = false;
  int64_t worst_lead = 0;  // clocks that anybody was ahead when it began
  int64_t killed = 0;
  int64_t left_out = 0;

  void run() {
    Rng rng(seed);
    VirtualServers servers(plan, std::vector<float>(40, 1), 2);
    servers.join_all();
    std::map<int, int64_t> clocks;
    uint64_t nonce = 1;
    while (!finishing(servers)) {
      std::vector<int> busy;
      for (const auto& [id, worker] : servers.workers) {
        if (!worker.grants.empty()) busy.push_back(id);
      }
      REQUIRE(!busy.empty());
      const int id = busy[rng.below(busy.size())];
      if (deaths && rng.below(12) == 0) {
        ++killed;
        if (servers.workers.size() > 1) servers.kill(id);
        if (!servers.workers.contains(id)) servers.join(id, ++nonce);
        continue;
      }
      // As a server does: half of the others have nothing left to do.
      const auto owed = servers.clock.owed();
      if (stops && owed.contains(id) && rng.below(3) == 0 &&
          2 * owed.size() <= servers.clock.active_members().size()) {
        ++left_out;
        servers.leave_out(id);
        continue;
      }
      const auto value = static_cast<float>(rng.normal()) * 0.01F;
      const ps::Grant grant = servers.push(id, std::vector<float>(40, value));
      worst_lead =
          std::max(worst_lead, grant.clock - servers.workers.at(id).min_clock);
    }
    CHECK(servers.clock.position() == plan.end);
    CHECK(servers.clock.totals().samples == plan.end - plan.position);
    servers.finish();
    CHECK(servers.clock.done());
  }

  static bool finishing(const VirtualServers& servers) {
    return std::all_of(servers.workers.begin(), servers.workers.end(),
                       [](const auto& w) { return w.second.finishing; });
  }
};

}  // namespace

TEST_CASE("every sample is accepted exactly once whatever the order") {
  for (const auto consistency :
       {Consistency::sync, Consistency::ssp, Consistency::async}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      Chaos chaos{.plan = virtual_plan(consistency, 4, 203), .seed = seed};
      chaos.plan.parallel.ps.bound = 3;
      chaos.plan.parallel.ps.discard = 1 + static_cast<int>(seed % 5);
      chaos.plan.parallel.stragglers =
          seed % 2 == 0 ? StragglerPolicy::off : StragglerPolicy::automatic;
      chaos.deaths = seed % 3 == 0;
      chaos.run();
      if (consistency == Consistency::ssp) CHECK(chaos.worst_lead <= 3 + 1);
    }
  }
}

TEST_CASE(
    "every sample is accepted exactly once, whichever worker is left out") {
  int64_t left_out = 0;
  for (const auto consistency :
       {Consistency::sync, Consistency::ssp, Consistency::async}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      Chaos chaos{.plan = virtual_plan(consistency, 4, 203), .seed = seed};
      chaos.stops = true;
      chaos.deaths = seed % 3 == 0;
      chaos.run();
      left_out += chaos.left_out;
    }
  }
  CHECK(left_out > 20);
}
