#include "dtune/gang/server.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "gang/toy_member.h"
#include <doctest/doctest.h>

#include "dtune/gang/client.h"

namespace dtune {
namespace {

GangOptions gang_of(int ranks) {
  GangOptions options;
  options.gang = "7.1";
  options.parallel.mode = ParallelMode::data;
  options.parallel.ranks = ranks;
  options.parallel.predictor = PredictorKind::last;
  return options;
}

struct Stage {
  SocketDirectory sockets;
  GangServer server{{.local = sockets.endpoint("g")}, {}};

  GangSeat seat(int member, int members) const {
    GangSeat seat;
    seat.gang = "7.1";
    seat.member = member;
    seat.members = members;
    seat.endpoint = server.local_endpoint();
    return seat;
  }
};

gang::Begin begin_of(int64_t samples, int64_t batch) {
  gang::Begin begin;
  begin.end = begin.epoch_samples = samples;
  begin.batch_size = batch;
  begin.evaluation_batches = 7;
  return begin;
}

}  // namespace

TEST_CASE("a gang of threads trains evaluates and commits a step") {
  Stage stage;
  constexpr int kRanks = 3;
  stage.server.open(gang_of(kRanks));
  const std::atomic<bool> never{false};
  std::vector<toy::StepSeen> seen(kRanks);
  std::vector<std::thread> threads;
  for (int m = 0; m < kRanks; ++m) {
    threads.emplace_back([&, m] {
      GangClient client(stage.seat(m, kRanks));
      seen[static_cast<size_t>(m)] =
          toy::run_step(client, begin_of(1000, 32), never);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(toy::counts(seen, 0, 1000) == std::vector<int>(1000, 1));
  for (const toy::StepSeen& member : seen) {
    CHECK(member.ended == "");
    CHECK(member.regroups == 1);
    CHECK(member.metrics == std::map<std::string, double>{{"by", 0}});
    REQUIRE(member.gos.size() == 32 + 2);
    CHECK(member.gos[0].totals.samples == 32);
    CHECK(member.gos[32].totals.samples == 7);
  }
}

}  // namespace dtune
