// A coordinator under load: its decisions, its SQLite file and its TCP sockets
// are real; 1,000 agents with 8 slots each are simulated by another process.
// First as fast as it can go, 100,000 reports; then at half of that rate, for
// latencies. Afterwards the file has to hold every report that was
// acknowledged. Optuna does the same (load_optuna.py) where Python has it.
// Prints rows for bench_runner.
//
// Not counted: CURVE, which remote agents have besides.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include "optuna_rows.h"
#include "simulated_agents.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "dtune/base/file.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/tuner/factory.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own
using bench::AgentFigures;
using nlohmann::json;

constexpr int kAgents = 1000;
constexpr int kSlots = 8;
const std::string kStudy = "load-bench";

struct Load {
  int trials = 10'000;
  int steps = 10;
  double step_seconds = 0;
};

struct Result {
  AgentFigures agents;
  double memory_mib = 0;  // of the coordinator, at its peak
  double database_mib = 0;
  int64_t stored = 0;  // reports
};

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Peak of the resident memory of this process.
double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

json to_json(const AgentFigures& f) {
  return {f.reports,       f.seconds,           f.report.p50_ms,
          f.report.p99_ms, f.assignment.p50_ms, f.assignment.p99_ms};
}

AgentFigures figures_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  const json all = json::parse(in);
  return {all[0], all[1], {all[2], all[3]}, {all[4], all[5]}};
}

// agents ENDPOINT SECONDS FILE
int simulate_agents(char** arguments) {
  raise_descriptor_limit();
  const AgentFigures figures =
      bench::run_agents({.endpoint = arguments[0],
                         .study_id = kStudy,
                         .agents = kAgents,
                         .slots = kSlots,
                         .step_seconds = std::atof(arguments[1])});
  std::ofstream(arguments[2]) << to_json(figures);
  return 0;
}

Study make_study(const Load& load) {
  Parameter lr;
  lr.name = lr.key = "lr";
  lr.low = 1e-4;
  lr.log = true;
  Study study;
  study.id = kStudy;
  study.horizon = load.steps;
  study.recipe.space = SearchSpace({lr});
  study.recipe.sampler.kind = "random";
  study.recipe.scheduler.kind = "fifo";
  study.recipe.budget.trials = load.trials;
  study.recipe.final_training.enabled = false;
  study.recipe.limits.heartbeat = std::chrono::seconds(5);
  study.recipe.limits.lease = std::chrono::seconds(120);
  study.recipe.limits.step_time = std::chrono::minutes(30);
  return study;
}

// Every step of every trial is there, once.
int64_t count_reports(TrialStore& store) {
  const StudyRecords records = store.load_records();
  std::set<std::pair<TrialId, int>> steps;
  std::set<int64_t> places;
  for (const RecordedReport& report : records.reports) {
    steps.emplace(report.trial, report.report.step);
    places.insert(report.report.sequence);
  }
  const bool once = steps.size() == records.reports.size() &&
                    places.size() == records.reports.size();
  return once ? std::ssize(records.reports) : -1;
}

Result run_study(const Load& load) {
  const TemporaryDirectory folder;
  const auto figures = folder.path() / "agents.json";
  const auto database = folder.path() / "study.db";
  Study study = make_study(load);
  const auto store = open_sqlite_store(database, StoreMode::create_or_open);
  const auto sampler = make_sampler(study.recipe);
  const auto scheduler = make_scheduler(study.recipe, study.horizon);
  CoordinatorOptions options;
  options.endpoint = "tcp://127.0.0.1:0";
  options.checkpoints = folder.path() / "checkpoints";
  ProgressSink silent;
  StudyOutcome outcome;
  std::atomic<int> stop{0};
  std::unique_ptr<Child> child;
  {
    Coordinator coordinator(study, *store, *sampler, *scheduler, silent,
                            system_clock(), options);
    SpawnOptions spawn;
    spawn.argv = {"/proc/self/exe", "agents", coordinator.endpoint(),
                  std::to_string(load.step_seconds), figures.string()};
    spawn.death_signal = SIGTERM;
    spawn.capture = false;
    child = std::make_unique<Child>(spawn);
    outcome = coordinator.run(stop);
  }
  const double memory = peak_mib();
  child->wait(std::chrono::seconds(30));
  if (outcome.state != StudyState::finished) {
    throw Error(ErrorKind::study, "the study was not finished: " + outcome.why);
  }
  store->flush();
  return {
      .agents = figures_in(figures),
      .memory_mib = memory,
      .database_mib =
          static_cast<double>(std::filesystem::file_size(database)) / (1 << 20),
      .stored = count_reports(*store)};
}

void print_row(const std::string& name, double ours, double baseline,
               double ratio, bool good, const std::string& unit,
               const std::string& detail) {
  const json row = {{"name", name},   {"ours", ours},    {"baseline", baseline},
                    {"ratio", ratio}, {"goal", 1.0},     {"ok", good},
                    {"unit", unit},   {"detail", detail}};
  fmt::print("{}\n", row.dump());
  std::fflush(stdout);
}

std::string describe(const Result& result) {
  const AgentFigures& f = result.agents;
  return fmt::format(
      "{} reports acknowledged, {} stored, in {:.1f} s; report to "
      "acknowledgement {:.1f} ms (99%: {:.1f}), last report to next trial "
      "{:.1f} ms (99%: {:.1f}); coordinator {:.0f} MiB, database {:.0f} MiB",
      f.reports, result.stored, f.seconds, f.report.p50_ms, f.report.p99_ms,
      f.assignment.p50_ms, f.assignment.p99_ms, result.memory_mib,
      result.database_mib);
}

// Nothing that was acknowledged may be missing, nor anything be there twice.
bool whole(const Load& load, const Result& result) {
  return result.stored == int64_t{load.trials} * load.steps &&
         result.agents.reports <= result.stored;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 5 && std::string(argv[1]) == "agents") {
    return simulate_agents(argv + 2);
  }
  raise_descriptor_limit();
  const Load full;
  const Result fast = run_study(full);
  const double rate =
      static_cast<double>(fast.agents.reports) / fast.agents.seconds;
  double optuna = 0;
  for (const json& row : optuna_rows("load_optuna.py")) {
    optuna = std::max(optuna, row["reports_per_second"].get<double>());
    std::fprintf(stderr, "Optuna: %s\n", row.dump().c_str());
  }
  const double baseline = optuna > 0 ? optuna : 1000;
  print_row("reports a second, 1,000 agents x 8 slots", rate, baseline,
            rate / baseline, whole(full, fast), "1/s",
            describe(fast) + (optuna > 0 ? "; baseline is Optuna's best"
                                         : "; baseline is the limit set"));
  const Load half{.trials = 12'000,
                  .steps = 5,
                  .step_seconds = 2 * kAgents * kSlots / rate};
  const Result calm = run_study(half);
  const double limit = 50;  // ms
  const double slowest = calm.agents.report.p99_ms;
  print_row("report to acknowledgement at half the load, 99%", slowest, limit,
            limit / slowest, whole(half, calm) && slowest < limit, "ms",
            describe(calm) + "; baseline is the limit set");
  return whole(full, fast) && whole(half, calm) ? 0 : 1;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
