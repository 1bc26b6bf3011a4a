// Trials that take several slots, and copies of stragglers: real processes,
// real sockets, a real database.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
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
  }

  void check_whole(size_t trials) {
    const auto stored = local.store->load_trials();
    REQUIRE(stored.size() == trials);
    for (const Trial& trial : stored) {
      CHECK(trial.state == TrialState::complete);
      CHECK(trial.steps() == 5);
    }
    CHECK(toy::leftovers(id).empty());
  }

  const TemporaryDirectory folder;
  const std::string id;
  toy::LocalStudy local;
};

}  // namespace

TEST_CASE("trials of two ranks run two at a time on four slots") {
  GangStudy study("gangs", 4, gang_recipe(4, 2), toy::point(0.5, "learn", 8));
  size_t most = 0;
  study.local.sink.at_tick = [&](const Study&, const ClusterStatus& status) {
    std::set<std::pair<TrialId, int>> ranks;
    for (const SlotStatus& slot : status.slots) {
      if (slot.trial != 0) ranks.insert({slot.trial, slot.member});
    }
    most = std::max(most, ranks.size());
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

TEST_CASE("a gang that no cluster can seat is refused, not queued") {
  GangStudy study("gang-of-9", 2, gang_recipe(1, 9),
                  toy::point(0.5, "learn", 8));
  study.local.options.agent_timeout = std::chrono::seconds(2);
  const StudyOutcome outcome = study.local.run();
  CHECK(outcome.state == StudyState::failed);
  CHECK(outcome.why.find("takes 9 slots") != std::string::npos);
}

TEST_CASE("a gang goes on without a rank that is killed and takes it back") {
  GangStudy study("kill-rank", 3, gang_recipe(1, 3),
                  toy::point(0.5, "learn", 150));
  study.local.at_first_report(
      [&] { CHECK(toy::signal_worker(study.id, 1, SIGKILL)); });
  CHECK(study.local.run().state == StudyState::finished);
  study.check_whole(1);
  CHECK(study.local.study.trial(1).attempt == 1);
  CHECK(study.local.study.trial(1).failures == 0);
  CHECK(study.local.sink.notices.find("rank 1 on here (signal 9)") !=
        std::string::npos);
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

TEST_CASE("the final training of a gang is tested once") {
  Recipe recipe = gang_recipe(1, 2);
  recipe.final_training.enabled = true;
  GangStudy study("gang-final", 2, recipe, toy::point(0.5, "learn", 4));
  study.local.options.model_file = study.folder.path() / "model";
  const StudyOutcome outcome = study.local.run();
  CHECK(outcome.state == StudyState::finished);
  CHECK(outcome.final_metrics.at("test_accuracy") == 0.25);
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
