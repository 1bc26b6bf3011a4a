// A controller and its members in virtual time.
#include <algorithm>
#include <vector>

#include "gang/simulated_gang.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

using Kind = GangEvent::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

// One long step of many rounds.
simulated::Setting long_step(int ranks) {
  simulated::Setting setting;
  setting.ranks = ranks;
  setting.samples = 8000;
  setting.step_samples = 8000;
  setting.steps = 1;
  setting.speeds.assign(static_cast<size_t>(ranks), 2'000);
  return setting;
}

}  // namespace

TEST_CASE("without faults batches and their numbers are those of one process") {
  simulated::Setting setting;
  setting.samples = 97;  // 3 x 32 + 1: the remainder joins
  setting.step_samples = 250;
  setting.steps = 2;
  simulated::Gang gang(setting);
  gang.run(seconds(100));
  CHECK(gang.problem == "");
  const BatchCutter cutter(setting.samples, setting.batch);
  int rounds = 0;
  for (const gang::Go& go : gang.gos) {
    if (go.last || go.next.phase != gang::Phase::train) continue;
    const BatchRange batch = cutter.at(go.next.position);
    CHECK(go.next.number == batch.number);
    CHECK(go.next.epoch == batch.epoch);
    CHECK(go.next.batch_samples == batch.size);
    ++rounds;
  }
  CHECK(rounds > 10);
}

TEST_CASE("shares follow the speeds of ranks") {
  simulated::Setting setting = long_step(4);
  setting.batch = 130;
  setting.speeds = {10'000, 10'000, 10'000, 2'500};
  simulated::Gang gang(setting);
  gang.run(seconds(100));
  CHECK(gang.problem == "");
  CHECK(gang.count(Kind::balanced) >= 1);
  const GangStatus status = gang.controller().status();
  CHECK(status.members[3].share == doctest::Approx(0.25 / 3.25).epsilon(0.2));
  CHECK(status.members[0].share == doctest::Approx(1 / 3.25).epsilon(0.2));
  CHECK(gang.count(Kind::late) == 0);
}

TEST_CASE("a spike is not waited for and its samples are trained by others") {
  simulated::Gang gang(long_step(4));
  gang.at(milliseconds(600), [&] { gang.suspend(2, milliseconds(200)); });
  gang.run(seconds(100));
  CHECK(gang.problem == "");
  CHECK(gang.committed == 1);
  CHECK(gang.count(Kind::late) == 1);
  CHECK(gang.count(Kind::rejoined) == 1);
  CHECK(gang.count(Kind::lost) == 0);
  const bool without = std::any_of(
      gang.gos.begin(), gang.gos.end(),
      [](const gang::Go& go) { return go.participants.size() == 3; });
  CHECK(without);
}

// One rank stands still for a second in every six, for four minutes, without the
// machine's own disturbances. What can be won is all but the rank's own time; the
// longer a round, the more of it is lost with the rank's work.
TEST_CASE("of what spikes cost a gang that waits, most is won back") {
  const auto share = [](StragglerPolicy policy, double round, double overlap,
                        bool spikes) {
    simulated::Setting setting = long_step(4);
    setting.batch = static_cast<int64_t>(8'000 * round);
    setting.samples = setting.step_samples = 8'000 * 240;
    setting.stragglers = policy;
    setting.overlap = overlap;
    simulated::Gang gang(setting);
    for (int at = 5; spikes && at < 600; at += 6) {
      gang.at(seconds(at), [&] { gang.suspend(3, seconds(1)); });
    }
    gang.run(seconds(1200));
    CHECK(gang.problem == "");
    CHECK(gang.committed == 1);
    return 240 / to_seconds(gang.elapsed());  // of the summed speeds
  };
  struct Bound {
    double round;    // seconds
    double overlap;  // of the ranks are ready at their first gradient
    double won;
  };
  for (const auto& [round, overlap, least] :
       {Bound{0.25, 0, 2.0 / 3}, Bound{0.25, 0.5, 2.0 / 3}, Bound{0.5, 0, 0.5},
        Bound{0.5, 0.5, 0.5}, Bound{1, 0, 0.25}, Bound{1, 0.5, 0.25}}) {
    const double undisturbed =
        share(StragglerPolicy::automatic, round, overlap, false);
    const double minded =
        share(StragglerPolicy::automatic, round, overlap, true);
    const double waiting = share(StragglerPolicy::off, round, overlap, true);
    const double best = undisturbed * (1 - 1.0 / 6 / 4);
    const double won = (minded - waiting) / (best - waiting);
    MESSAGE("rounds of ", round, " s, overlap ", overlap, ": undisturbed ",
            undisturbed, ", auto ", minded, ", off ", waiting, ", won ", won);
    CHECK(undisturbed > 0.94);
    CHECK(waiting < 0.83);
    CHECK(won > least);
  }
}

// In rounds of two seconds, where a rank loses more by being left behind.
TEST_CASE("short spikes in long rounds are waited for") {
  simulated::Setting setting = long_step(4);
  setting.batch = 16'000;
  setting.samples = setting.step_samples = 8'000 * 100;
  setting.overlap = 0;
  simulated::Gang gang(setting);
  // After the first rounds; at all places in one.
  for (int i = 0; i < 20; ++i) {
    gang.at(milliseconds(20'000 + 4'123 * i),
            [&] { gang.suspend(3, milliseconds(300)); });
  }
  gang.run(seconds(1200));
  CHECK(gang.problem == "");
  CHECK(gang.committed == 1);
  // A first one may be taken for a long one.
  CHECK(gang.count(Kind::late) <= 2);
}

TEST_CASE("a rank has its old share when it comes back from a spike") {
  simulated::Setting setting = long_step(4);
  setting.batch = 2000;
  setting.samples = setting.step_samples = 8'000 * 10;
  setting.overlap = 0;
  simulated::Gang gang(setting);
  gang.at(milliseconds(5'000), [&] { gang.suspend(3, seconds(1)); });
  gang.run(seconds(100));
  CHECK(gang.problem == "");
  CHECK(gang.count(Kind::late) == 1);
  CHECK(gang.count(Kind::rejoined) == 1);
  for (const gang::Go& go : gang.gos) {
    if (go.participants.size() < 4 || go.totals.samples < 2000) continue;
    CAPTURE(go.round);
    CHECK(gang.size_of(go.round, 3) > 400);
  }
}

// Wherever it stops: computing, in a reduction, receiving state, evaluating,
// writing the checkpoint, between steps, in the first rounds.
TEST_CASE("no rank waits for one that has stopped") {
  simulated::Setting setting;
  setting.ranks = 3;
  setting.lease = std::chrono::hours(10);  // it is not what helps
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    setting.seed = seed;
    simulated::Gang undisturbed(setting);
    undisturbed.run(seconds(100));
    REQUIRE(undisturbed.committed == setting.steps);
    // The leader, or another.
    const int victim = static_cast<int>(seed % 3);
    Rng rng(seed);
    simulated::Gang gang(setting);
    // From when all have come, 250 ms.
    const double until = to_seconds(undisturbed.elapsed()) - 1.3;
    gang.at(from_seconds(0.27 + rng.uniform() * until),
            [&] { gang.suspend(victim, std::chrono::hours(10)); });
    gang.run(seconds(200));
    REQUIRE(gang.problem == "");
    CAPTURE(seed);
    CHECK(gang.committed == setting.steps);
    // A group that cannot be made any more, before the pace is known.
    CHECK(gang.elapsed() < undisturbed.elapsed() + seconds(14));
  }
}

// In rounds of 50 ms: they are redone long before the patience of the data plane
// is over, and the rank comes back. Ten times, a second each.
TEST_CASE("a rank that stops in a reduction holds the others up for a moment") {
  const auto seconds_of = [](bool stops) {
    simulated::Setting setting = long_step(4);
    setting.batch = 400;
    setting.samples = setting.step_samples = 8'000 * 60;
    setting.overlap = 0;
    simulated::Gang gang(setting);
    for (int i = 0; stops && i < 10; ++i) {
      gang.at(seconds(5 + 4 * i), [&gang, victim = i % 4] {
        gang.suspend_in_reduction(victim, seconds(1));
      });
    }
    gang.run(seconds(1200));
    CHECK(gang.problem == "");
    CHECK(gang.committed == 1);
    CHECK(gang.count(Kind::late) == (stops ? 10 : 0));
    return to_seconds(gang.elapsed());
  };
  const double lost = (seconds_of(true) - seconds_of(false)) / 10;
  MESSAGE("lost by a stop of a second: ", lost, " s");
  // A quarter of a second is the rank's own.
  CHECK(lost < 0.6);
}

TEST_CASE("a rank that has become slow gets less and is not left behind") {
  simulated::Setting setting = long_step(4);
  setting.samples = setting.step_samples = 20'000;
  simulated::Gang gang(setting);
  gang.at(milliseconds(600), [&] { gang.set_speed(1, 500); });
  gang.run(seconds(100));
  CHECK(gang.problem == "");
  CHECK(gang.committed == 1);
  CHECK(gang.count(Kind::late) <= 3);
  CHECK(gang.controller().status().members[1].share < 0.15);
}

TEST_CASE("without mitigation a gang waits and shares equally") {
  simulated::Setting setting = long_step(4);
  setting.stragglers = StragglerPolicy::off;
  setting.speeds = {10'000, 1'000};
  simulated::Gang gang(setting);
  gang.at(milliseconds(600), [&] { gang.suspend(2, seconds(5)); });
  gang.run(seconds(100));
  CHECK(gang.committed == 1);
  CHECK(gang.count(Kind::late) == 0);
  CHECK(gang.count(Kind::balanced) == 0);
  CHECK(gang.elapsed() > seconds(5));
}

TEST_CASE("the others train what a dead rank had and go on") {
  for (const bool known : {true, false}) {
    simulated::Gang gang(long_step(3));
    gang.at(milliseconds(700), [&] { gang.kill(0, known); });
    gang.run(seconds(100));
    CHECK(gang.problem == "");
    CHECK(gang.committed == 1);
    CHECK(gang.count(Kind::closed) == 0);
  }
}

TEST_CASE("a process that comes again is taken in while the others train") {
  simulated::Gang gang(long_step(3));
  gang.at(milliseconds(500), [&] { gang.kill(1, true); });
  gang.at(milliseconds(700), [&] { gang.restart(1); });
  gang.run(seconds(100));
  CHECK(gang.problem == "");
  CHECK(gang.committed == 1);
  CHECK(gang.count(Kind::lost) == 1);
  CHECK(gang.gos.back().participants == std::vector<int>{0, 1, 2});
}

TEST_CASE("a member that is silent for a lease is lost and comes back as new") {
  simulated::Setting setting = long_step(3);
  setting.samples = setting.step_samples = 60'000;
  setting.speeds = {500, 500, 500};
  simulated::Gang gang(setting);
  gang.at(seconds(2), [&] { gang.suspend(1, seconds(20)); });
  gang.run(seconds(300));
  CHECK(gang.problem == "");
  CHECK(gang.count(Kind::lost) == 1);
  CHECK(gang.gos.back().participants == std::vector<int>{0, 1, 2});
}

TEST_CASE("a rank that costs more than it brings is evicted") {
  simulated::Setting setting = long_step(4);
  setting.speeds = {2'000, 2'000, 2'000, 100};
  simulated::Gang gang(setting);
  gang.run(seconds(100));
  CHECK(gang.problem == "");
  CHECK(gang.committed == 1);
  CHECK(gang.count(Kind::evicted) == 1);
  CHECK(gang.gos.back().participants == std::vector<int>{0, 1, 2});
}

TEST_CASE("a rank is not evicted while it is worth its communication") {
  simulated::Setting setting = long_step(4);
  setting.speeds = {10'000, 10'000, 10'000, 2'500};
  setting.batch = 128;
  simulated::Gang gang(setting);
  gang.run(seconds(100));
  CHECK(gang.count(Kind::evicted) == 0);
}

}  // namespace dtune
