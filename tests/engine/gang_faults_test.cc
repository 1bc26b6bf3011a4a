// Members that die, are suspended or are late, as processes.
#include <csignal>
#include <optional>
#include <utility>

#include "eventually.h"
#include "gang_processes.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

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
  SuspendedRun(const Workshop& shop, const std::string& name, int steps,
               const Fault& fault)
      : gang(recipe_of(steps), name),
        members(shop, gang, name, steps, {fault}) {}

  static Recipe recipe_of(int steps) {
    Recipe recipe = gang_assignment(steps).recipe;
    recipe.parallel.stragglers = StragglerPolicy::automatic;
    return recipe;
  }

  // Until the others have trained `rounds` more.
  bool goes_on(const std::string& name, int64_t rounds) const {
    const auto round = [&] { return gang.server().status(name).round; };
    const int64_t before = round();
    return eventually([&] { return round() > before + rounds; });
  }

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

// It catches up, unless it is found too slow to be worth it, or the others have
// done all steps by then.
void check_return(const Workshop& shop, SuspendedRun& run,
                  const std::string& name, int steps) {
  ::kill(run.members.pid(1), SIGCONT);
  CHECK(eventually([&] {
    return run.happened(GangEvent::Kind::rejoined) ||
           run.happened(GangEvent::Kind::evicted) || run.members.ended(0);
  }));
  std::vector<int> finished;
  for (int member = 0; member < kRanks; ++member) {
    CAPTURE(member);
    if (exit_status(run.members.wait(member)) == 0) {
      finished.push_back(member);
    } else {
      run.happened(GangEvent::Kind::evicted);
      CHECK(told(run.events, GangEvent::Kind::evicted, member));
    }
  }
  REQUIRE(!finished.empty());
  check_outcome(shop, name, steps, finished);
}

void check_suspended(const Workshop& shop, const std::string& name,
                     const Fault& fault) {
  const int steps = 60;  // they last until it is back
  std::optional<SuspendedRun> run;
  std::string last;
  bool late = false;
  for (int attempt = 0; attempt < 10 && !late; ++attempt) {
    last = name + std::to_string(attempt);
    run.emplace(shop, last, steps, fault);
    REQUIRE(WIFSTOPPED(run->members.wait(1, WUNTRACED)));
    const MonoTime stopped = system_clock().now();
    REQUIRE(run->goes_on(last, 1));
    MESSAGE(last, ": the others go on after ",
            to_seconds(system_clock().now() - stopped), " s");
    REQUIRE(run->goes_on(last, 10));
    late = run->happened(GangEvent::Kind::late);
  }
  REQUIRE(late);
  check_return(shop, *run, last, steps);
}

}  // namespace

// It may be suspended where the end of the step comes before the next round:
// that is another test's. A round is mostly training, so one of a few runs is
// suspended there.
TEST_CASE("others go on without a suspended member and take it in again") {
  Workshop shop;
  check_suspended(shop, "late", {1, 2, 0.3, SIGSTOP});
}

// A message of the ring each: the first parts that are summed, sums on their way
// to all, and the next rounds'. Where a sum is on its way some ranks have it and
// some do not.
TEST_CASE(
    "others go on without a member that stops in the middle of a message") {
  Workshop shop;
  const double all_but_one = 0.999999;
  for (const auto& [message, share] : {std::pair{0, 0.0},
                                       {0, 0.5},
                                       {1, all_but_one},
                                       {2, 0.5},
                                       {3, all_but_one},
                                       {3, 1.0},
                                       {5, 0.5},
                                       {7, all_but_one}}) {
    CAPTURE(message);
    CAPTURE(share);
    check_suspended(shop, fmt::format("message{}-{}-", message, share),
                    {1, 2, 0.3, SIGSTOP, message, share});
  }
}
