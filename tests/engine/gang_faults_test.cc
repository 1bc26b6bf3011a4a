// Members that die, are suspended or are late, as processes.
#include <csignal>
#include <functional>
#include <optional>

#include "eventually.h"
#include "gang_processes.h"
#include <doctest/doctest.h>

using namespace dtune;

namespace {

// The run must have ended as if nothing had happened: all samples, once each.
void check_outcome(const Workshop& shop, const std::string& name, int steps,
                   const std::vector<int>& members) {
  const auto checkpoint = shop.path(name) / "trial-3.safetensors";
  const SafetensorsFile file(checkpoint);
  CHECK(file.text("step") == std::to_string(steps));
  CHECK(file.text("position") == std::to_string(steps * 400));
  const std::string model = "model.";
  const auto first =
      numbers_in(shop.path(name) / (model + std::to_string(members[0])));
  for (const int member : members) {
    CAPTURE(member);
    CHECK(numbers_in(shop.path(name) / (model + std::to_string(member))) ==
          first);
  }
}

}  // namespace

TEST_CASE("a member that is killed in the middle of a step costs no sample") {
  Workshop shop;
  const int steps = 4;
  for (const int victim : {0, 1}) {  // the leader; another
    CAPTURE(victim);
    const std::string name = "dies" + std::to_string(victim);
    Gang gang(gang_assignment(steps).recipe, name);
    Processes members(shop, gang, name, steps, {{victim, 2, 0.4, SIGKILL}});
    const int status = members.wait(victim);
    CHECK(WIFSIGNALED(status));
    gang.server().member_lost(name, victim, "it was killed");
    std::vector<int> survivors;
    for (int member = 0; member < kRanks; ++member) {
      if (member == victim) continue;
      survivors.push_back(member);
      CHECK(exit_status(members.wait(member)) == 0);
    }
    check_outcome(shop, name, steps, survivors);
    CHECK(told(gang.server().take_events(), GangEvent::Kind::lost, victim));
  }
}

namespace {

// A run of three members, of which member 1 is suspended in its second step.
struct SuspendedRun {
  SuspendedRun(const Workshop& shop, const Recipe& recipe,
               const std::string& name, int steps)
      : gang(recipe, name),
        members(shop, gang, name, steps, {{1, 2, 0.3, SIGSTOP}}) {}

  // Whether the server has said `kind` of member 1 by now.
  bool happened(GangEvent::Kind kind) {
    for (GangEvent& event : gang.server().take_events()) {
      events.push_back(std::move(event));
    }
    return told(events, kind, 1);
  }

  Gang gang;
  Processes members;
  std::vector<GangEvent> events;
};

}  // namespace

TEST_CASE("others go on without a suspended member and take it in again") {
  Workshop shop;
  const int steps = 60;  // they last until it is back
  Recipe recipe = gang_assignment(steps).recipe;
  recipe.parallel.stragglers = StragglerPolicy::automatic;
  // The signal may catch it between being ready and the sum, which then breaks
  // instead of going on without it: that is another test's. A round is mostly
  // computing, so one of a few runs is suspended there.
  std::optional<SuspendedRun> run;
  std::string name;
  bool late = false;
  for (int attempt = 0; attempt < 10 && !late; ++attempt) {
    name = "late" + std::to_string(attempt);
    run.emplace(shop, recipe, name, steps);
    REQUIRE(WIFSTOPPED(run->members.wait(1, WUNTRACED)));
    const auto round = [&] { return run->gang.server().status(name).round; };
    const int64_t before = round();
    REQUIRE(eventually([&] { return round() > before + 10; }));
    late = run->happened(GangEvent::Kind::late);
  }
  REQUIRE(late);
  ::kill(run->members.pid(1), SIGCONT);
  // It catches up, unless it is found too slow to be worth it.
  CHECK(eventually([&] {
    return run->happened(GangEvent::Kind::rejoined) ||
           run->happened(GangEvent::Kind::evicted);
  }));
  std::vector<int> finished;
  for (int member = 0; member < kRanks; ++member) {
    CAPTURE(member);
    if (exit_status(run->members.wait(member)) == 0) {
      finished.push_back(member);
    } else {
      run->happened(GangEvent::Kind::evicted);
      CHECK(told(run->events, GangEvent::Kind::evicted, member));
    }
  }
  REQUIRE(!finished.empty());
  check_outcome(shop, name, steps, finished);
}
