// Whole studies in which something goes wrong: real processes, real sockets, a
// real database. Nothing here depends on how fast the machine is, save that a
// step that computes nothing must end within three seconds ("a step that never
// ends").
#include <chrono>
#include <csignal>
#include <thread>

#include "cluster/local_study.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

constexpr Duration kFaultPatience = std::chrono::seconds(90);

void check_whole(toy::LocalStudy& local, size_t trials) {
  const auto stored = local.store->load_trials();
  REQUIRE(stored.size() == trials);
  for (const Trial& trial : stored) {
    CHECK(trial.state == TrialState::complete);
    CHECK(trial.steps() == 5);
  }
}

Recipe search_only(int trials) {
  Recipe recipe = toy::recipe(trials);
  recipe.final_training.enabled = false;
  return recipe;
}

}  // namespace

TEST_CASE("a worker that is killed costs its trial a step, not the study") {
  const toy::Setting patient(toy::kPatient, "60");
  TemporaryDirectory folder;
  toy::LocalStudy local(folder.path(), toy::unique("kill-worker"), 1,
                        search_only(2),
                        {toy::point(0.5, "wait_once"), toy::point(0.5)});
  local.at_first_report([] {
    CHECK(toy::signal_worker(toy::unique("kill-worker"), 0, SIGKILL));
  });
  CHECK(local.run().state == StudyState::finished);
  check_whole(local, 2);
  CHECK(local.study.trial(1).failures == 1);
  CHECK(local.study.trial(1).attempt == 2);
  CHECK(local.sink.notices.find("signal 9 (Killed); trying again from step") !=
        std::string::npos);
  CHECK(toy::leftovers(toy::unique("kill-worker")).empty());
}

TEST_CASE("a worker that is stopped for ever loses its lease") {
  TemporaryDirectory folder;
  toy::LocalStudy local(folder.path(), toy::unique("stop-worker"), 1,
                        search_only(1), {toy::point(0.5, "wait_once")});
  local.at_first_report([] {
    CHECK(toy::signal_worker(toy::unique("stop-worker"), 0, SIGSTOP));
  });
  CHECK(local.run().state == StudyState::finished);
  check_whole(local, 1);
  CHECK(local.study.trial(1).failures == 1);
  CHECK(local.sink.notices.find("has been silent") != std::string::npos);
}

TEST_CASE("an agent that is killed is replaced and its trials go on") {
  TemporaryDirectory folder;
  toy::LocalStudy local(folder.path(), toy::unique("kill-agent"), 2,
                        search_only(3),
                        {toy::point(0.5, "wait_once"), toy::point(0.5)});
  local.at_first_report([&] { kill(local.agent->pid(), SIGKILL); });
  CHECK(local.run().state == StudyState::finished);
  check_whole(local, 3);
  CHECK(local.agents_started == 2);
  CHECK(toy::leftovers(toy::unique("kill-agent")).empty());
}

TEST_CASE("a step that never ends is ended, tried again and given up") {
  const toy::Setting patient(toy::kPatient, "60");
  TemporaryDirectory folder;
  Recipe recipe = search_only(2);
  recipe.limits.step_time = std::chrono::seconds(3);
  recipe.limits.retries = 1;
  toy::LocalStudy local(folder.path(), toy::unique("hang"), 1, recipe,
                        {toy::point(0.5, "hang"), toy::point(0.4)});
  CHECK(local.run().state == StudyState::finished);
  const Trial& trial = local.study.trial(1);
  CHECK(trial.state == TrialState::failed);
  CHECK(trial.reason == Reason::lease_lapsed);
  CHECK(trial.failures == 2);
  CHECK(trial.steps() == 1);
  CHECK(local.study.trial(2).state == TrialState::complete);
  CHECK(toy::leftovers(toy::unique("hang")).empty());
}

TEST_CASE(
    "each way to fail is distinguished, and tried again where it may help") {
  const toy::Setting patient(toy::kPatient, "60");
  TemporaryDirectory folder;
  toy::LocalStudy local(folder.path(), toy::unique("modes"), 2, search_only(8),
                        {toy::point(0.1, "nan"), toy::point(0.1, "throw"),
                         toy::point(0.1, "segv"), toy::point(0.1, "exit3"),
                         toy::point(0.1, "oom"), toy::point(0.1, "silent"),
                         toy::point(0.1, "segv_once"), toy::point(0.2)});
  CHECK(local.run().state == StudyState::finished);
  const auto check = [&](TrialId id, TrialState state, Reason reason,
                         int failures) {
    CAPTURE(id);
    const Trial& trial = local.study.trial(id);
    CHECK(trial.state == state);
    CHECK(trial.reason == reason);
    CHECK(trial.failures == failures);
  };
  check(1, TrialState::failed, Reason::diverged, 1);
  check(2, TrialState::failed, Reason::diverged, 1);
  check(3, TrialState::failed, Reason::crashed, 3);
  check(4, TrialState::failed, Reason::crashed, 2);  // twice the same code
  check(5, TrialState::failed, Reason::out_of_memory, 1);
  check(6, TrialState::failed, Reason::bad_output, 1);
  check(7, TrialState::complete, Reason::horizon, 1);
  check(8, TrialState::complete, Reason::horizon, 0);
  CHECK(local.study.trial(1).steps() >= 2);  // the NaN is kept
  CHECK(local.study.trial(4).detail.find("exit code 3") != std::string::npos);
  CHECK(local.study.trial(4).detail.find("about to exit") != std::string::npos);
  CHECK(local.study.trial(6).detail.find("train_loss but not val_accuracy") !=
        std::string::npos);
}

TEST_CASE("a study in which every trial fails ends with the causes") {
  TemporaryDirectory folder;
  toy::LocalStudy local(folder.path(), toy::unique("all-fail"), 2,
                        toy::recipe(3), {toy::point(0.5, "silent")});
  const StudyOutcome outcome = local.run();
  CHECK(outcome.state == StudyState::failed);
  CHECK(outcome.why ==
        "no trial has a finite val_accuracy; the budget of 3 trials is spent; "
        "3 x bad_output (trial 1: step 1 reports train_loss but not "
        "val_accuracy (objective.metric))");
  CHECK(local.store->load_study()->state == StudyState::failed);
}

TEST_CASE("invalid points are replaced and not counted, within bounds") {
  TemporaryDirectory folder;
  toy::LocalStudy local(
      folder.path(), toy::unique("invalid"), 2, search_only(2),
      {toy::point(0.9, "invalid"), toy::point(0.3), toy::point(0.6)});
  local.options.recipe_for = [](const Point& point) -> Recipe {
    if (*as_number(point.at("lr")) > 0.5 &&
        std::get<std::string>(point.at("mode")) == "learn") {
      throw Error(ErrorKind::config, "lr is too large");
    }
    return {};
  };
  CHECK(local.run().state == StudyState::finished);
  int complete = 0;
  for (const Trial& trial : local.study.trials) {
    complete += trial.state == TrialState::complete ? 1 : 0;
    const bool known = trial.state == TrialState::complete ||
                       trial.state == TrialState::invalid;
    CHECK(known);
  }
  CHECK(complete == 2);
}

TEST_CASE("a space without any valid point ends the study") {
  TemporaryDirectory folder;
  toy::LocalStudy local(folder.path(), toy::unique("none-valid"), 1,
                        toy::recipe(5), {toy::point(0.5)});
  local.options.recipe_for = [](const Point&) -> Recipe {
    throw Error(ErrorKind::config, "no");
  };
  const StudyOutcome outcome = local.run();
  CHECK(outcome.state == StudyState::failed);
  CHECK(outcome.why.find("the last 100 points made no valid recipe: no") !=
        std::string::npos);
}

TEST_CASE("a stopped study keeps its steps and is resumed to the same end") {
  const toy::Setting patient(toy::kPatient, "60");
  TemporaryDirectory folder;
  std::atomic<int> stop{0};
  std::vector<Point> points(4, toy::point(0.5));
  points[0] = points[1] = toy::point(0.5, "wait_once");
  {
    toy::LocalStudy local(folder.path(), toy::unique("stopped"), 2,
                          toy::recipe(4), points);
    local.sink.at_report = [&](const Study&, const Trial&, const StepReport&) {
      if (local.sink.reports == 5) stop = 1;
    };
    const StudyOutcome outcome = local.run(stop);
    CHECK(outcome.state == StudyState::interrupted);
    CHECK(toy::leftovers(toy::unique("stopped")).empty());
    for (const Trial& trial : local.store->load_trials()) {
      CHECK(trial.state != TrialState::running);
      CHECK(trial.checkpoint_step == trial.steps());
    }
  }
  toy::LocalStudy resumed(folder.path(), toy::unique("stopped"), 2,
                          toy::recipe(4), points);
  const int64_t before = steps_spent(resumed.study);
  CHECK(before >= 5);
  CHECK(resumed.run().state == StudyState::finished);
  check_whole(resumed, 5);  // four and the final training
  // No step of the first run was trained again.
  CHECK(resumed.sink.reports <= 4 * 5 - before + 5);
}

TEST_CASE("a second stop does not wait for a step that ignores the first") {
  TemporaryDirectory folder;
  std::atomic<int> stop{0};
  toy::LocalStudy local(folder.path(), toy::unique("stop-now"), 1,
                        toy::recipe(1), {toy::point(0.5, "hang")});
  local.at_first_report([&] { stop = 2; });
  CHECK(local.run(stop).state == StudyState::interrupted);
  CHECK(toy::leftovers(toy::unique("stop-now")).empty());
}

TEST_CASE("a budget of steps is never exceeded and can be enlarged") {
  TemporaryDirectory folder;
  Recipe recipe = search_only(0);
  recipe.budget.steps = 12;
  {
    toy::LocalStudy local(folder.path(), toy::unique("steps"), 2, recipe,
                          {toy::point(0.5)});
    CHECK(local.run().state == StudyState::finished);
    CHECK(steps_spent(local.study) == 12);
  }
  recipe.budget.steps = 20;
  toy::LocalStudy more(folder.path(), toy::unique("steps"), 2, recipe,
                       {toy::point(0.5)});
  const StudyOutcome outcome = more.run();
  CHECK(outcome.state == StudyState::finished);
  CHECK(steps_spent(more.study) == 20);
  check_whole(more, 4);
}

TEST_CASE("a budget of time is stored and pauses what runs") {
  TemporaryDirectory folder;
  Recipe recipe = search_only(0);
  recipe.budget.time = std::chrono::hours(1);
  toy::LocalStudy local(folder.path(), toy::unique("time"), 1, recipe,
                        {toy::point(0.5, "wait_once")});
  toy::JumpingClock clock;
  local.clock = &clock;
  local.at_first_report([&] { clock.jump(std::chrono::hours(1)); });
  CHECK(local.run().state == StudyState::finished);
  CHECK(local.store->load_study()->searched_seconds >= 3600);
  CHECK(local.study.trials.back().state == TrialState::paused);
  CHECK(local.study.trials.back().reason == Reason::budget);
}

TEST_CASE("a trial over its wall-clock cap is timed out") {
  TemporaryDirectory folder;
  Recipe recipe = search_only(2);
  recipe.limits.trial_time = std::chrono::hours(1);
  toy::LocalStudy local(folder.path(), toy::unique("cap"), 1, recipe,
                        {toy::point(0.5, "learn", 1'000'000), toy::point(0.2)});
  toy::JumpingClock clock;
  local.clock = &clock;
  local.sink.at_state = [&](const Trial& trial) {
    const bool first = trial.id == 1 && trial.state == TrialState::running;
    if (first) clock.jump(std::chrono::hours(2));
  };
  CHECK(local.run().state == StudyState::finished);
  CHECK(local.study.trial(1).state == TrialState::timed_out);
  CHECK(local.study.trial(1).reason == Reason::wall_clock);
  CHECK(local.study.trial(2).state == TrialState::complete);
}

TEST_CASE("a final training that fails leaves the study resumable") {
  TemporaryDirectory folder;
  const std::filesystem::path model = folder.path() / "model";
  std::filesystem::create_directory(model);  // writing the model fails
  {
    toy::LocalStudy local(folder.path(), toy::unique("final"), 1,
                          toy::recipe(1), {toy::point(0.5)});
    const StudyOutcome outcome = local.run();
    CHECK(outcome.state == StudyState::interrupted);
    CHECK(outcome.why.find("the search is finished (the best is trial 1), but "
                           "its final training failed") == 0);
  }
  std::filesystem::remove(model);
  toy::LocalStudy resumed(folder.path(), toy::unique("final"), 1,
                          toy::recipe(1), {toy::point(0.5)});
  const StudyOutcome outcome = resumed.run();
  CHECK(outcome.state == StudyState::finished);
  CHECK(resumed.final_metrics().contains("test_accuracy"));
}

TEST_CASE("of several final trainings one is tested") {
  TemporaryDirectory folder;
  Recipe recipe = toy::recipe(1);
  recipe.final_training.seeds = 3;
  toy::LocalStudy local(folder.path(), toy::unique("seeds"), 2, recipe,
                        {toy::point(0.5)});
  const StudyOutcome outcome = local.run();
  CHECK(outcome.state == StudyState::finished);
  check_whole(local, 4);
  CHECK(local.final_metrics().contains("test_accuracy"));
  int tested = 0;
  for (const TrialEvent& event : local.store->load_events(0)) {
    tested += event.detail.ends_with("is tested and kept") ? 1 : 0;
  }
  CHECK(tested == 1);
}

TEST_CASE(
    "a coordinator that is killed loses no stored report, leaves no process") {
  TemporaryDirectory folder;
  SpawnOptions spawn;
  spawn.argv = {DTUNE_FAKE_WORKER,
                "coordinator",
                folder.path().string(),
                "kill-coordinator",
                "2",
                "6",
                "10"};
  Child coordinator(spawn);
  const auto path = folder.path() / "study.db";
  std::vector<Trial> before;
  const auto end = std::chrono::steady_clock::now() + kFaultPatience;
  int64_t steps = 0;
  while (steps < 8 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!std::filesystem::exists(path)) continue;
    try {
      const auto store = open_sqlite_store(path, StoreMode::read_only);
      before = store->load_trials();
    } catch (const Error&) {
      continue;  // it is just being made
    }
    steps = 0;
    for (const Trial& trial : before) steps += trial.steps();
  }
  REQUIRE(steps >= 8);
  kill(coordinator.pid(), SIGKILL);
  coordinator.wait(kFaultPatience);
  CHECK(toy::leftovers(toy::unique("kill-coordinator")).empty());

  toy::LocalStudy resumed(folder.path(), toy::unique("kill-coordinator"), 2,
                          toy::recipe(6), {toy::point(0.5, "learn", 10)});
  REQUIRE(resumed.study.trials.size() >= before.size());
  for (const Trial& trial : before) {
    CHECK(resumed.study.trial(trial.id).steps() >= trial.steps());
  }
  CHECK(resumed.run().state == StudyState::finished);
  check_whole(resumed, 7);
}

TEST_CASE("a tuned program is killed with all its children when it is left") {
  TemporaryDirectory folder;
  Recipe recipe = search_only(1);
  recipe.command = CommandSpec{};
  recipe.limits.trial_time = std::chrono::hours(1);
  toy::LocalStudy local(folder.path(), toy::unique("command"), 1, recipe,
                        {toy::point(0.5)});
  toy::JumpingClock clock;
  local.clock = &clock;
  local.at_first_report([&] { clock.jump(std::chrono::hours(2)); });
  local.study.recipe_yaml =
      "setsid sh -c 'sleep 1000; true' & echo val_accuracy=$1; "
      "sleep 1000; true";
  local.study.horizon = kOpenHorizon;
  local.scheduler = make_scheduler(recipe, kOpenHorizon);
  const StudyOutcome outcome = local.run();
  CHECK(outcome.state == StudyState::finished);
  CHECK(local.study.trial(1).state == TrialState::timed_out);
  CHECK(local.final_metrics().at("val_accuracy") == 0.5);
  CHECK(toy::leftovers(toy::unique("command")).empty());
}
