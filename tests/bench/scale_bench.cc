// Studies on 10 and 100 nodes in virtual time, or on as many as are asked for
// (1,000 take minutes of a processor): the coordinator, its leases, the sampler,
// the scheduler and the launcher's decisions are real; nodes, queue and training
// are simulated (tests/cluster/virtual_study.h).
// Prints rows for bench_runner; the baseline is the use that the same trials
// would make of nodes that are there all the time, each with trials of its own.
//
//   bench_scale [NODES [KEY=VALUE...]]
//
// Keys: sampler, scheduler, trials, steps (the budgets), pending, wait, boot,
// wall, preempted, step, heartbeat (seconds; a lease is 15 heartbeats), queue,
// stragglers, charged (0 or 1), seed, traces (a folder of files for `dtune
// speeds`).
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cluster/virtual_study.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/curves/curves_file.h"
#include "dtune/simulate/cube_world.h"
#include "dtune/speed/speed_traces.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

// Thirty epochs of small X-rays.
constexpr const char* kCube = "/tests/worlds/cubes/j-small-sgd.npz";
constexpr int kTrialsOfNode = 5;

using Settings = std::map<std::string, std::string>;

double number(const Settings& settings, const char* key, double otherwise) {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : std::stod(found->second);
}

std::string word(const Settings& settings, const char* key,
                 const char* otherwise) {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : found->second;
}

std::vector<std::vector<double>> traces_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  if (folder.empty()) return {};
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::vector<double>> traces;
  for (const auto& file : files) {
    std::vector<double> trace = read_speed_trace(file);
    const double fastest = *std::max_element(trace.begin(), trace.end());
    for (double& speed : trace) speed /= fastest;
    traces.push_back(std::move(trace));
  }
  return traces;
}

VirtualStudyOptions study_on(int nodes, const Settings& settings,
                             const TrialWorld& world) {
  VirtualStudyOptions options;
  VirtualClusterOptions& cluster = options.cluster;
  const bool queue = number(settings, "queue", 1) != 0;
  cluster.nodes = nodes;
  cluster.queue = queue;
  cluster.seed = static_cast<uint64_t>(number(settings, "seed", 1));
  cluster.pending = static_cast<int>(number(settings, "pending", 2));
  cluster.wait = number(settings, "wait", cluster.wait);
  cluster.boot = number(settings, "boot", cluster.boot);
  cluster.wall = queue ? number(settings, "wall", cluster.wall) : 0;
  cluster.preempted =
      queue ? number(settings, "preempted", cluster.preempted) : 0;
  cluster.step = number(settings, "step", cluster.step);
  cluster.stragglers = number(settings, "stragglers", 1) != 0;
  cluster.charged = number(settings, "charged", 1) != 0;
  cluster.traces = traces_in(word(settings, "traces", ""));
  options.recipe = world.recipe();
  options.recipe.seed = cluster.seed;
  options.recipe.sampler.kind = word(settings, "sampler", "random");
  options.recipe.scheduler.kind = word(settings, "scheduler", "asha");
  options.recipe.budget.trials = static_cast<int>(
      number(settings, "trials", double(kTrialsOfNode) * nodes));
  options.recipe.budget.steps =
      static_cast<int64_t>(number(settings, "steps", 0));
  const double heartbeat = number(settings, "heartbeat", 1);
  options.recipe.limits.heartbeat = from_seconds(heartbeat);
  options.recipe.limits.lease = from_seconds(15 * heartbeat);
  options.horizon = world.steps();
  options.leave_out = world.task();
  const bool negated =
      options.recipe.objective.goal == Goal::minimize;  // larger is better
  options.objective = [&world, negated](const Point& point, int step,
                                        uint64_t seed) {
    const double value = world.single(point, step, seed);
    return negated ? -value : value;
  };
  return options;
}

std::string describe(const VirtualStudyResult& result) {
  const VirtualClusterFigures& c = result.cluster;
  const double hours = result.seconds / 3600;
  return fmt::format(
      "{:.2f} h of virtual time, {} trials ({:.0f} an hour), {} steps; at most "
      "{} agents at a time of {} jobs ({} preempted, {} at their wall time), "
      "which waited {:.0f} s each; {:.1f} node hours; the coordinator heard "
      "{:.1f} and sent {:.1f} messages a second, at most {} in one, in {:.0f} "
      "s "
      "of its processor ({:.2f}% of the time); {}",
      hours, result.study.trials.size(),
      double(result.study.trials.size()) / hours, result.steps, c.most_agents,
      c.jobs, c.preempted, c.timed_out, c.waited_seconds / c.jobs,
      c.node_seconds / 3600, double(c.received) / result.seconds,
      double(c.sent) / result.seconds, c.busiest_second, c.processor_seconds,
      100 * c.processor_seconds / result.seconds, result.why);
}

bool run(int nodes, const Settings& settings, const TrialWorld& world) {
  const VirtualStudyResult result =
      run_virtual_study(study_on(nodes, settings, world));
  std::string name = fmt::format("{} nodes", nodes);
  for (const auto& [key, value] : settings) name += " " + key + "=" + value;
  const double use = result.utilisation();
  const bool good = result.whole && result.cluster.mistakes.empty() &&
                    result.cluster.left_over == 0 &&
                    use > result.fixed_utilisation;
  fmt::print(R"({{"name": "{}, share of node time that trained", )"
             R"("ours": {:.4f}, "baseline": {:.4f}, "ratio": {:.3f}, )"
             R"("goal": 1.0, "ok": {}, "unit": "", "detail": "{}"}})"
             "\n",
             name, use, result.fixed_utilisation,
             use / result.fixed_utilisation, good, describe(result));
  std::fflush(stdout);
  for (const std::string& mistake : result.cluster.mistakes) {
    std::fprintf(stderr, "%s\n", mistake.c_str());
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto curves = read_curves(std::string(DTUNE_SOURCE_DIR) + kCube);
  const auto world = make_cube_world(curves.at(0));
  if (argc == 1) {
    bool good = true;
    for (const int nodes : {10, 100}) good &= run(nodes, {}, *world);
    return good ? 0 : 1;
  }
  Settings settings;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    settings[text.substr(0, equals)] =
        equals == std::string::npos ? "1" : text.substr(equals + 1);
  }
  return run(std::stoi(argv[1]), settings, *world) ? 0 : 1;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
