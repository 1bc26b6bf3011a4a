// Trials that take several slots, and copies of stragglers: real processes,
// real sockets, a real database.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "cluster/local_study.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"

using namespace dtune;  // NOLINT: a test

namespace {

Recipe gang_recipe(int trials, int ranks) {
  Recipe recipe = toy::recipe(trials);
  recipe.parallel.mode = ParallelMode::data;
  recipe.parallel.ranks = ranks;
  recipe.final_training.enabled = false;
  recipe.limits.lease = std::chrono::seconds(20);
  return recipe;
}

struct GangStudy {
  GangStudy(const std::string& name, int slots, const Recipe& recipe,
            const Point& point)
      : id(toy::unique(name)),
        local(folder.path(), id, slots, recipe, {point}) {
    local.options.gangs.local = local.sockets.endpoint("gangs");
    hurry(false);
  }

  // Trials have so many steps; before hurry(), in place of five.
  void take_steps(int steps) {
    local.study.horizon = steps;
    local.scheduler = make_scheduler(local.study.recipe, steps);
  }
  // From here on nothing takes time: what was to happen meanwhile has happened.
  void hurry(bool now = true) const {
    if (now) {
      std::filesystem::remove(slow);
    } else {
      write_file_atomic(slow, "", false);
    }
  }

  void check_whole(size_t trials) {
    const auto stored = local.store->load_trials();
    REQUIRE(stored.size() == trials);
    for (const Trial& trial : stored) {
      CHECK(trial.state == TrialState::complete);
      CHECK(trial.steps() == local.study.horizon);
    }
    CHECK(toy::leftovers(id).empty());
  }

  // A second agent of this study, as another node.
  std::unique_ptr<Child> start_guest(int slots) const {
    SpawnOptions spawn;
    spawn.argv = {DTUNE_FAKE_WORKER, "agent", local.options.endpoint, id,
                  std::to_string(slots)};
    spawn.environment["DTUNE_STUDY"] = id;
    spawn.capture = false;
    return std::make_unique<Child>(spawn);
  }

  const TemporaryDirectory folder;
  const std::filesystem::path slow = folder.path() / "slow";
  const toy::Setting setting{toy::kSlowWhile, slow};
  const std::string id;
  toy::LocalStudy local;
};

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("trials of two ranks run two at a time on four slots") {
  GangStudy study("gangs", 4, gang_recipe(4, 2), toy::point(0.5, "learn", 900));
  size_t most = 0;
  study.local.sink.at_tick = [&](const Study&, const ClusterStatus& status) {
    std::set<std::pair<TrialId, int>> ranks;
    for (const SlotStatus& slot : status.slots) {
      if (slot.trial != 0) ranks.insert({slot.trial, slot.member});
    }
    most = std::max(most, ranks.size());
    if (most == 4) study.hurry();
  };
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(4);
  CHECK(most == 4);
}

TEST_CASE("a gang gets all its slots or none") {
  GangStudy study("gang-of-3", 4, gang_recipe(2, 3),
                  toy::point(0.5, "learn", 8));
  // Slots of a trial that is over may still be leaving it.
  study.local.sink.at_tick = [](const Study& now, const ClusterStatus&) {
    CHECK(std::count_if(now.trials.begin(), now.trials.end(),
                        [](const Trial& trial) {
                          return trial.state == TrialState::running;
                        }) <= 1);
  };
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(2);
}

TEST_CASE("a gang that no cluster has slots for is refused, not queued") {
  GangStudy study("gang-of-9", 2, gang_recipe(1, 9),
                  toy::point(0.5, "learn", 8));
  study.local.options.agent_timeout = std::chrono::hours(1);
  toy::JumpingClock clock;
  study.local.clock = &clock;
  study.local.sink.at_tick = [&](const Study&, const ClusterStatus& status) {
    if (!status.slots.empty()) clock.jump(std::chrono::hours(1));
  };
  const StudyOutcome outcome = study.local.run();
  CHECK(outcome.state == StudyState::failed);
  CHECK(outcome.why.find("takes 9 slots") != std::string::npos);
}

TEST_CASE("a gang that waits for slots to the end of its time says so") {
  Recipe recipe = gang_recipe(1, 9);
  recipe.budget.time = std::chrono::hours(10);
  GangStudy study("gang-waits", 2, recipe, toy::point(0.5, "learn", 8));
  study.local.options.agent_timeout = std::chrono::hours(100);
  toy::JumpingClock clock;
  study.local.clock = &clock;
  study.local.sink.at_tick = [&](const Study&, const ClusterStatus& status) {
    if (status.slots.empty()) return;
    const bool said = times(study.local.sink.notices, "a trial takes 9") > 0;
    clock.jump(said ? Duration(std::chrono::hours(10))
                    : std::chrono::seconds(6));
  };
  const StudyOutcome outcome = study.local.run();
  CHECK(outcome.state == StudyState::failed);
  const std::string lack = "a trial takes 9 slots (parallel), 2 are here";
  CHECK(times(study.local.sink.notices, lack + "; waiting for nodes") == 1);
  CHECK_MESSAGE(times(outcome.why, lack) == 1, outcome.why);
}

// A gang's ranks report together, and its slots may be free before the last of
// them was heard.
TEST_CASE("a step of a gang that pauses is reported once") {
  Recipe recipe = gang_recipe(12, 2);
  recipe.scheduler.kind = "asha";
  GangStudy study("gang-pauses", 4, recipe, toy::point(0.5, "learn", 1));
  std::map<std::pair<TrialId, int>, int> told;
  study.local.sink.at_report = [&](const Study&, const Trial& trial,
                                   const StepReport& report) {
    ++told[{trial.id, report.step}];
  };
  size_t pauses = 0;
  study.local.sink.at_state = [&](const Trial& trial) {
    if (trial.state == TrialState::paused) ++pauses;
  };
  CHECK(study.local.run().state == StudyState::finished);
  CHECK(pauses > 0);
  for (const auto& [what, count] : told) {
    CAPTURE(what.first);
    CAPTURE(what.second);
    CHECK(count == 1);
  }
}

TEST_CASE("a gang goes on without a node that leaves and gives it no rank") {
  GangStudy study("node-leaves", 2, gang_recipe(1, 3),
                  toy::point(0.5, "learn", 150));
  study.take_steps(200);
  const std::string news = "rank 2 on here#2: node here#2 ";
  std::unique_ptr<Child> guest;
  study.local.sink.at_tick = [&](const Study&, const ClusterStatus& status) {
    if (status.slots.size() == 2 && !guest) guest = study.start_guest(2);
    if (times(study.local.sink.notices, news) > 0) study.hurry();
  };
  study.local.at_first_report([&] { kill(guest->pid(), SIGINT); });
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(1);
  const std::string& said = study.local.sink.notices;
  INFO(said);
  // The agent's last word may come with the one of its worker, or later.
  CHECK(times(said, news) == 1);
  CHECK(times(said, "exit code 0") == 0);
  CHECK(times(said, "taken over") == 0);
  CHECK(study.local.study.trial(1).attempt == 1);
  CHECK(study.local.study.trial(1).failures == 0);
}

TEST_CASE("a gang goes on without a rank that is killed and takes it back") {
  GangStudy study("kill-rank", 3, gang_recipe(1, 3),
                  toy::point(0.5, "learn", 300));
  study.take_steps(100);
  study.local.sink.at_tick = [&](const Study&, const ClusterStatus&) {
    if (times(study.local.sink.notices, "caught up") > 0) study.hurry();
  };
  study.local.at_first_report(
      [&] { CHECK(toy::signal_worker(study.id, 1, SIGKILL)); });
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(1);
  CHECK(study.local.study.trial(1).attempt == 1);
  CHECK(study.local.study.trial(1).failures == 0);
  const std::string& said = study.local.sink.notices;
  INFO(said);
  CHECK(times(said, "rank 1 on here (signal 9)") == 1);
  CHECK(times(said, "rank 1 on here has caught up") == 1);
  CHECK(times(said, "caught up") == 1);
}

// Its slot may not keep the next gang from getting all of its slots.
TEST_CASE("a slot without its gang trains alone only while that gang runs") {
  GangStudy study("evicted", 2, gang_recipe(12, 2),
                  toy::point(0.5, "straggle", 60));
  std::set<TrialId> of_two;
  size_t together = 0;
  study.local.sink.at_tick = [&](const Study&, const ClusterStatus& status) {
    std::set<TrialId> trials;
    for (const SlotStatus& slot : status.slots) {
      if (slot.trial != 0) trials.insert(slot.trial);
      if (slot.trial != 0 && slot.member == 1) of_two.insert(slot.trial);
    }
    together = std::max(together, trials.size());
  };
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(12);
  CHECK(study.local.sink.notices.find("costs more than it brings") !=
        std::string::npos);
  CHECK(together == 2);
  CHECK_FALSE(of_two.contains(2));
  CHECK(of_two.contains(12));
}

TEST_CASE("a gang of which all ranks die starts again from its checkpoint") {
  GangStudy study("kill-all", 2, gang_recipe(1, 2),
                  toy::point(0.5, "learn", 40));
  study.local.at_first_report([&] {
    for (const int slot : {0, 1}) {
      CHECK(toy::signal_worker(study.id, slot, SIGKILL));
    }
  });
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(1);
  // A rank that is back before the other's death is known keeps the lease.
  CHECK(study.local.study.trial(1).attempt <= 2);
}

// Seeds are logged; DTUNE_KILL_RUNS=100 for a long look.
TEST_CASE("random kills of ranks and agents cost attempts and no results") {
  const char* wanted = std::getenv("DTUNE_KILL_RUNS");
  const int runs = wanted == nullptr ? 4 : std::atoi(wanted);
  for (int seed = 1; seed <= runs; ++seed) {
    CAPTURE(seed);
    Recipe recipe = gang_recipe(3, 2);
    recipe.limits.retries = 50;
    GangStudy study("kills-" + std::to_string(seed), 4, recipe,
                    toy::point(0.5, "learn", 20));
    Rng rng(static_cast<uint64_t>(seed));
    int left = 4;
    study.local.sink.at_tick = [&](const Study&, const ClusterStatus&) {
      if (left == 0 || rng.uniform() > 0.25) return;
      const auto slot = static_cast<int>(rng.below(5));
      const bool killed = slot < 4
                              ? toy::signal_worker(study.id, slot, SIGKILL)
                              : kill(study.local.agent->pid(), SIGKILL) == 0;
      if (killed) --left;
    };
    CHECK(study.local.run().state == StudyState::finished);
    study.check_whole(3);
    std::set<std::pair<TrialId, int>> steps;
    for (const Trial& trial : study.local.store->load_trials()) {
      for (const StepReport& report : trial.curve) {
        CHECK(steps.insert({trial.id, report.step}).second);
        CHECK(report.metrics.at("val_accuracy") ==
              0.5 * (1 - std::exp2(-report.step)));
      }
    }
    CHECK(steps.size() == 15);
  }
}

TEST_CASE("a pipeline that loses a stage starts again from its checkpoint") {
  Recipe recipe = gang_recipe(1, 2);
  recipe.parallel.mode = ParallelMode::model;
  GangStudy study("kill-stage", 2, recipe, toy::point(0.5, "wait_once", 8));
  study.local.at_first_report(
      [&] { CHECK(toy::signal_worker(study.id, 1, SIGKILL)); });
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(1);
  INFO(study.local.sink.notices);
  CHECK(study.local.study.trial(1).attempt == 2);
}

// The lease, which ends after hours, is not what helps.
TEST_CASE("a stage that stops is replaced from the trial's checkpoint") {
  Recipe recipe = gang_recipe(1, 2);
  recipe.parallel.mode = ParallelMode::model;
  recipe.limits.lease = std::chrono::hours(10);
  GangStudy study("stop-stage", 2, recipe, toy::point(0.5, "wait_once", 8));
  study.local.at_first_report(
      [&] { CHECK(toy::signal_worker(study.id, 1, SIGSTOP)); });
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(1);
  INFO(study.local.sink.notices);
  CHECK(study.local.study.trial(1).attempt == 2);
  CHECK(times(study.local.sink.notices,
              "the gang cannot go on without rank 1 on here") >= 1);
}

TEST_CASE("the final training of a gang is tested once") {
  Recipe recipe = gang_recipe(1, 2);
  recipe.final_training.enabled = true;
  GangStudy study("gang-final", 2, recipe, toy::point(0.5, "learn", 4));
  study.local.options.model_file = study.folder.path() / "model";
  const StudyOutcome outcome = study.local.run();
  CHECK(outcome.state == StudyState::finished);
  CHECK(study.local.final_metrics().at("test_accuracy") == 0.25);
  CHECK(read_file(study.local.options.model_file) == "gang");
}

TEST_CASE("a trial that straggles is copied and the first to finish wins") {
  Recipe recipe = toy::recipe(1);
  recipe.final_training.enabled = false;
  recipe.limits.lease = std::chrono::seconds(60);
  GangStudy study("copy", 2, recipe, toy::point(0.5, "wait_once", 20));
  study.local.at_first_report([&] {
    CHECK(
        toy::signal_worker(study.id, study.local.study.trial(1).slot, SIGSTOP));
  });
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(1);
  const Trial& trial = study.local.study.trial(1);
  CHECK(trial.attempt == 2);
  CHECK(trial.failures == 0);
  CHECK(study.local.sink.notices.find("straggling: step ") !=
        std::string::npos);
  CHECK(study.local.sink.notices.find("superseded: the copy on here ") !=
        std::string::npos);
}

TEST_CASE("the start of a trial is no step that straggles") {
  const TemporaryDirectory folder;
  Recipe recipe = toy::recipe(2);
  recipe.final_training.enabled = false;
  recipe.limits.lease = std::chrono::seconds(60);
  toy::LocalStudy study(folder.path(), toy::unique("slow-start"), 2, recipe,
                        {toy::point(0.5), toy::point(0.4, "late")});
  CHECK(study.run().state == StudyState::finished);
  for (const Trial& trial : study.study.trials) CHECK(trial.attempt == 1);
  CHECK(study.sink.notices == "");
}
