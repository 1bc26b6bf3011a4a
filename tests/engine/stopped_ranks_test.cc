// Real ranks that are stopped (SIGSTOP) at random points of the round: the
// others go on. The lease is so long that it cannot be what helps.
#include <csignal>
#include <cstdlib>
#include <thread>

#include "eventually.h"
#include "gang_processes.h"
#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;

namespace {

constexpr Duration kNever = std::chrono::hours(10);
constexpr int kEndless = 100'000;  // steps

// DTUNE_STOPS: how often; more for a longer search.
int stops() {
  const char* text = std::getenv("DTUNE_STOPS");
  return text != nullptr ? std::atoi(text) : 3;
}

// DTUNE_STOPS_MODE: one of them alone.
std::vector<std::string> modes() {
  const char* text = std::getenv("DTUNE_STOPS_MODE");
  if (text != nullptr) return {text};
  return {"data", "ps", "ssp"};
}

struct EndlessRun {
  EndlessRun(const Workshop& shop, const std::string& mode)
      : name("stopped-" + mode),
        gang(recipe_of(mode), name, kNever),
        members(shop, gang, name, kEndless, {}, mode) {}

  static Recipe recipe_of(const std::string& mode) {
    Recipe recipe = gang_assignment(kEndless, mode).recipe;
    recipe.parallel.stragglers = StragglerPolicy::automatic;
    return recipe;
  }

  int64_t round() const { return gang.server().status(name).round; }
  bool goes_on(int64_t rounds) const {
    const int64_t before = round();
    return eventually([&] { return round() >= before + rounds; });
  }
  // What the members do, for messages.
  std::string phases() const {
    std::string text;
    const GangStatus status = gang.server().status(name);
    for (const MemberStatus& member : status.members) {
      text += member.phase + "; ";
    }
    return text + "round " + std::to_string(status.round);
  }
  std::vector<int> workers() const {
    const GangStatus status = gang.server().status(name);
    std::vector<int> present;
    for (int m = 0; m < kRanks; ++m) {
      if (status.members[static_cast<size_t>(m)].present) present.push_back(m);
    }
    return present;
  }
  void signal(int member, int number) const {
    ::kill(members.pid(member), number);
  }
  bool said(GangEvent::Kind kind) {
    for (GangEvent& event : gang.server().take_events()) {
      events.push_back(std::move(event));
    }
    return std::any_of(events.begin(), events.end(),
                       [&](const GangEvent& e) { return e.kind == kind; });
  }

  std::string name;
  Gang gang;
  Processes members;
  std::vector<GangEvent> events;
};

}  // namespace

TEST_CASE("the others go on wherever in a round a rank is stopped") {
  Workshop shop;
  for (const std::string& mode : modes()) {
    CAPTURE(mode);
    EndlessRun run(shop, mode);
    REQUIRE(run.goes_on(40));
    Rng rng(7);
    for (int stop = 0; stop < stops(); ++stop) {
      CAPTURE(stop);
      // On a small network ranks that are slow now and then are evicted.
      const std::vector<int> workers = run.workers();
      if (workers.size() < 2) break;
      const int victim = workers[rng.below(workers.size())];
      std::this_thread::sleep_for(from_seconds(0.05 * rng.uniform()));
      run.signal(victim, SIGSTOP);
      // Several steps: rounds of training, evaluation, commit.
      REQUIRE_MESSAGE(run.goes_on(20), run.phases());
      run.signal(victim, SIGCONT);
      REQUIRE_MESSAGE(run.goes_on(10), run.phases());
    }
    CHECK_FALSE(run.said(GangEvent::Kind::closed));
    CHECK_FALSE(run.said(GangEvent::Kind::lost));
  }
}

TEST_CASE("a gang ends soon where the member that has stopped is needed") {
  Workshop shop;
  // The first of three stages; the server of three workers.
  for (const auto& [mode, victim] :
       {std::pair<std::string, int>{"model", 0}, {"ps", 3}}) {
    CAPTURE(mode);
    EndlessRun run(shop, mode);
    REQUIRE(run.goes_on(20));
    run.signal(victim, SIGSTOP);
    // The trial then goes on from its checkpoint, with other processes.
    REQUIRE(eventually([&] { return run.said(GangEvent::Kind::closed); }));
    for (int member = 0; member < run.gang.members(); ++member) {
      if (member == victim) continue;
      CHECK(exit_status(run.members.wait(member)) == 1);
    }
  }
}
