// What scheduling, messages and records cost: 1,000 trials of 10 steps that do
// nothing, over real ZeroMQ, agent and worker processes and a real SQLite file,
// from an empty folder to the finished study. Prints a row for bench_runner.
//
// Expected: 0.2 to 0.5 ms a trial on two cores. Optuna 5.0 on such a machine:
// 68 ms with SQLite, 8 ms with its journal file.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/cluster/agent.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/cluster/worker.h"
#include "dtune/comm/socket.h"
#include "dtune/tuner/factory.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

constexpr int kTrials = 1000;
constexpr int kSteps = 10;
constexpr int kSlots = 2;
const std::string kStudy = "overhead-bench";

std::atomic<int> g_stop{0};  // NOLINT: what a signal handler can reach

class NothingSession final : public TrialSession {
 public:
  int steps_done() const override { return steps_; }
  StepReport run_step(const std::atomic<bool>& /*stop*/) override {
    StepReport report;
    report.step = ++steps_;
    report.metrics = {{"val_accuracy", 0.5}};
    return report;
  }
  uint64_t resident_bytes() const override { return 0; }
  std::map<std::string, double> finish_final() override { return {}; }

 private:
  int steps_ = 0;
};

class NothingRunner final : public TrialRunner {
 public:
  std::unique_ptr<TrialSession> start(const TrialAssignment&) override {
    return std::make_unique<NothingSession>();
  }
};

int worker(int argc, char** argv) {
  WorkerOptions options;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--connect") options.endpoint = argv[i + 1];
    if (std::string(argv[i]) == "--slot") options.slot = std::stoi(argv[i + 1]);
  }
  return run_worker(
      options, [](const Recipe&) { return std::make_unique<NothingRunner>(); },
      g_stop);
}

int agent(const std::string& endpoint) {
  AgentOptions options;
  options.endpoint = endpoint;
  options.study_id = kStudy;
  options.slots = kSlots;
  options.worker_argv = {"/proc/self/exe", "worker"};
  return run_agent(options, g_stop);
}

Study make_study() {
  Parameter lr;
  lr.name = lr.key = "lr";
  lr.low = 1e-4;
  lr.log = true;
  Study study;
  study.id = kStudy;
  study.horizon = kSteps;
  study.recipe.space = SearchSpace({lr});
  study.recipe.sampler.kind = "random";
  study.recipe.scheduler.kind = "fifo";
  study.recipe.budget.trials = kTrials;
  study.recipe.final_training.enabled = false;
  return study;
}

class Notices : public ProgressSink {
  void on_notice(const std::string& text) override {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
};

double seconds_of_study() {
  const TemporaryDirectory folder;
  const SocketDirectory sockets;
  Study study = make_study();
  const auto began = std::chrono::steady_clock::now();
  const auto store =
      open_sqlite_store(folder.path() / "study.db", StoreMode::create_or_open);
  const auto sampler = make_sampler(study.recipe);
  const auto scheduler = make_scheduler(study.recipe, study.horizon);
  std::unique_ptr<Child> child;
  CoordinatorOptions options;
  options.endpoint = sockets.endpoint("coordinator");
  options.checkpoints = folder.path() / "checkpoints";
  options.ensure_local_agent = [&] {
    if (child) return;
    SpawnOptions spawn;
    spawn.argv = {"/proc/self/exe", "agent", options.endpoint};
    spawn.death_signal = SIGTERM;
    spawn.capture = false;
    child = std::make_unique<Child>(spawn);
  };
  Notices notices;
  StudyOutcome outcome;
  {
    Coordinator coordinator(study, *store, *sampler, *scheduler, notices,
                            system_clock(), options);
    outcome = coordinator.run(g_stop);
  }
  const std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - began;
  const auto trials = store->load_trials();
  const bool whole = outcome.state == StudyState::finished &&
                     trials.size() == kTrials &&
                     trials.back().steps() == kSteps;
  if (!whole) {
    throw Error(ErrorKind::study, "the study was not finished: " + outcome.why);
  }
  return spent.count();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "worker") return worker(argc, argv);
  if (what == "agent" && argc > 2) return agent(argv[2]);
  const double ms = 1e3 * seconds_of_study() / kTrials;
  fmt::print(R"({{"name": "overhead of a trial of 10 steps", "ours": {:.3f}, )"
             R"("baseline": 1.0, "ratio": {:.2f}, "goal": 1.0, "ok": {}, )"
             R"("unit": "ms", "detail": "{} trials, {} slots, ZeroMQ, SQLite; )"
             R"(baseline is the limit set"}})"
             "\n",
             ms, 1 / ms, ms < 1, kTrials, kSlots);
  return 0;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
