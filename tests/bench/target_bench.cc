// Time to target: five nodes that tune, one node that tunes, one node that
// searches at random without stopping a training early, and one node that trains
// once with a framework's default values. Virtual time; the curves were recorded
// from CNNs (tests/worlds/cubes), the coordinator and the tuner are real. Prints
// a row for each world, and their geometric means.
//
//   bench_target [SEEDS]
//
// The untuned node has what Keras sets: a learning rate of .01 for SGD, .001 for
// Adam and AdamW, no L2, no dropout. The first target is the best accuracy that
// it reaches in a full training; the second lies halfway from there to the best
// of all recorded trainings.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cluster/virtual_study.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/curves/curves_file.h"
#include "dtune/simulate/cube_world.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

constexpr double kEpoch = 60;       // seconds, on every node
constexpr int kMostTrainings = 40;  // then a study gives up

struct Untuned {
  double target = 0;
  double seconds = 0;  // until it is reached
};

Point untuned_point(const TrialWorld& world) {
  const Recipe& recipe = world.recipe();
  Point point;
  point["lr"] = recipe.train.optimizer == OptimizerKind::sgd ? 0.01 : 0.001;
  for (const Parameter& parameter : recipe.space.parameters()) {
    if (parameter.name == "l2" || parameter.name == "dropout") {
      point[parameter.name] = parameter.low;
    }
  }
  return point;
}

Untuned train_untuned(const TrialWorld& world, uint64_t seed) {
  Untuned best;
  const Point point = untuned_point(world);
  for (int step = 1; step <= world.steps(); ++step) {
    const double value = world.single(point, step, seed);
    if (!std::isfinite(value) || value <= best.target) continue;
    best = {value, step * kEpoch};
  }
  return best;
}

// Seconds until a trial's report reaches each target; what is not reached in
// kMostTrainings counts as that long.
std::vector<double> seconds_to(const std::vector<double>& targets, int nodes,
                               const TrialWorld& world, uint64_t seed,
                               bool at_random = false) {
  VirtualStudyOptions options;
  options.cluster.nodes = nodes;
  options.cluster.queue = false;
  options.cluster.boot = 0;
  options.cluster.wall = options.cluster.preempted = 0;
  options.cluster.step = kEpoch;
  options.cluster.stragglers = false;
  options.recipe = world.recipe();
  options.recipe.seed = seed;
  if (at_random) {
    options.recipe.sampler.kind = "random";
    options.recipe.scheduler.kind = "fifo";
  }
  options.recipe.budget.steps = int64_t{kMostTrainings} * world.steps();
  options.horizon = world.steps();
  options.leave_out = world.task();
  const std::string metric = options.recipe.objective.metric;
  options.objective = [&](const Point& point, int step, uint64_t trial) {
    return world.single(point, step, trial);
  };
  std::vector<double> reached;
  options.stop = [&](const Study& study, const Trial& trial) {
    const double value = trial.curve.back().metrics.at(metric);
    while (reached.size() < targets.size() && value >= targets[reached.size()])
      reached.push_back(study.searched_seconds);
    return reached.size() == targets.size();
  };
  const VirtualStudyResult result = run_virtual_study(options);
  reached.resize(targets.size(), result.seconds);
  return reached;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / double(values.size()));
}

// Of five nodes against others, a value for each seed.
struct Ratios {
  std::vector<double> untuned;  // one untuned node, its own best
  std::vector<double> tuned;    // one node that tunes, the same target
  std::vector<double> beyond;   // one node that tunes, the second target
  std::vector<double> random;   // one that searches at random, likewise
};

void print(const std::string& name, double ratio, double baseline,
           const std::string& detail) {
  fmt::print(R"({{"name": "{}", "ours": {:.3f}, "baseline": {:.3f}, )"
             R"("ratio": {:.3f}, "goal": 0, "ok": true, "unit": "x", )"
             R"("detail": "{}"}})"
             "\n",
             name, ratio, baseline, ratio / baseline, detail);
  std::fflush(stdout);
}

std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return fmt::format("median {:.2f}, quartiles {:.2f} to {:.2f}",
                     median(values), values[n / 4], values[(3 * n - 1) / 4]);
}

Ratios judge(const RecordedCurves& curves, int seeds) {
  const auto world = make_cube_world(curves);
  Ratios ratios;
  for (int i = 0; i < seeds; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const Untuned untuned = train_untuned(*world, seed);
    const std::vector<double> targets = {untuned.target,
                                         (untuned.target + world->best()) / 2};
    const auto one = seconds_to(targets, 1, *world, seed);
    const auto five = seconds_to(targets, 5, *world, seed);
    const auto random = seconds_to(targets, 1, *world, seed, true);
    ratios.untuned.push_back(untuned.seconds / five[0]);
    ratios.tuned.push_back(one[0] / five[0]);
    ratios.beyond.push_back(one[1] / five[1]);
    ratios.random.push_back(random[1] / five[1]);
  }
  print(fmt::format("five nodes against one untuned, {}", world->task()),
        geometric_mean(ratios.untuned), geometric_mean(ratios.tuned),
        fmt::format("untuned {}; one node that tunes, same target: {}; second "
                    "target, one node that tunes: {}, one that searches at "
                    "random: {}; {} epochs, {} seeds; baseline is one node "
                    "that tunes",
                    spread(ratios.untuned), spread(ratios.tuned),
                    spread(ratios.beyond), spread(ratios.random),
                    world->steps(), seeds));
  return ratios;
}

}  // namespace

int main(int argc, char** argv) try {
  const int seeds = argc > 1 ? std::stoi(argv[1]) : 5;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(DTUNE_SOURCE_DIR) + "/tests/worlds/cubes")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("j-")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Ratios all;
  const auto add = [](std::vector<double>& to,
                      const std::vector<double>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (const auto& file : files) {
    for (const RecordedCurves& curves : read_curves(file)) {
      const Ratios one = judge(curves, seeds);
      add(all.untuned, one.untuned);
      add(all.tuned, one.tuned);
      add(all.beyond, one.beyond);
      add(all.random, one.random);
    }
  }
  print("five nodes against one untuned, all worlds",
        geometric_mean(all.untuned), geometric_mean(all.tuned),
        fmt::format("geometric means; second target, against one node that "
                    "tunes: {:.2f}, against one that searches at random: "
                    "{:.2f}; untuned {}",
                    geometric_mean(all.beyond), geometric_mean(all.random),
                    spread(all.untuned)));
  return 0;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
