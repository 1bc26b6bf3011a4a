// dtune simulate: ways of tuning against each other on recorded curves.

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <thread>

#include "app/command.h"
#include "app/overrides.h"
#include "app/simulation_networks.h"
#include "app/simulation_table.h"
#include "app/simulation_worlds.h"
#include "app/study_files.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/suggest.h"
#include "dtune/base/text.h"
#include "dtune/simulate/benchmark.h"
#include "dtune/simulate/statistics_report.h"
#include "dtune/tuner/factory.h"
#include "dtune/tuner/learnt_part.h"

namespace dtune {
namespace {

struct SimulateOptions {
  std::vector<std::string> curves;
  std::vector<std::string> samplers;
  std::vector<std::string> schedulers;
  std::vector<std::string> tasks;
  std::vector<std::string> budgets;
  std::vector<std::string> context;
  std::optional<uint64_t> seeds;
  std::optional<uint64_t> slots;
  std::optional<uint64_t> threads;
  std::optional<uint64_t> seed;
  std::string noise;
  std::string spread;
  std::string misleading;
  std::vector<std::string> networks;
  std::string prior;
  std::string epsilon;
  bool calibration = false;
  bool allow_seen = false;
  std::string json_file;
  std::string plot_file;
};

constexpr const char* kDefault = "default";
// Of a table that goes to a file: no number in it is cut.
constexpr int kWidest = 200;

[[noreturn]] void fail_simulate(const std::string& text) {
  throw Error(ErrorKind::config, "dtune simulate: " + text);
}

double deviation(const std::string& option, const std::string& text) {
  if (text.empty()) return 0;
  const auto number = parse_number<double>(text);
  if (!number || !(*number >= 0 && *number <= 100)) {
    fail_simulate(
        fmt::format("{}: '{}' is not a standard deviation (a number from 0 to "
                    "100)",
                    option, text));
  }
  return *number;
}

std::vector<int64_t> parse_budgets(const std::vector<std::string>& texts) {
  std::set<int64_t> budgets;
  for (const std::string& text : split_list(texts)) {
    const auto steps = parse_number<int64_t>(text);
    if (!steps || *steps < 1 || *steps > 100'000'000) {
      fail_simulate(
          fmt::format("--budget: '{}' is not a number of steps (1, 2, ... "
                      "100000000)",
                      text));
    }
    budgets.insert(*steps);
  }
  return {budgets.begin(), budgets.end()};
}

std::vector<std::string> names_of(const std::vector<NamedKind>& kinds) {
  std::vector<std::string> names;
  names.reserve(kinds.size());
  for (const NamedKind& kind : kinds) names.push_back(kind.name);
  return names;
}

void check_name(const std::string& what, const std::string& name,
                const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail_simulate(fmt::format("--{0}: unknown {0} '{1}'{2} (one of {3})", what,
                            name, did_you_mean(name, names),
                            fmt::join(names, ", ")));
}

Misleading misleading_in(const std::string& name) {
  if (name.empty()) return Misleading::none;
  check_name("misleading", name, misleading_names());
  return misleading_of(name);
}

// Every sampler with every scheduler, each pair once; `gp+asha` is one pair.
std::vector<Contender> contenders_of(const SimulateOptions& options) {
  std::vector<std::string> samplers = split_list(options.samplers);
  std::vector<std::string> schedulers = split_list(options.schedulers);
  if (samplers.empty()) samplers = names_of(sampler_kinds());
  if (schedulers.empty()) schedulers = {kDefault};
  std::vector<std::string> known = names_of(scheduler_kinds());
  known.emplace_back(kDefault);
  std::vector<Contender> contenders;
  const auto add = [&](const std::string& sampler,
                       const std::string& scheduler) {
    check_name("sampler", sampler, names_of(sampler_kinds()));
    check_name("scheduler", scheduler, known);
    const std::string chosen =
        scheduler == kDefault ? default_scheduler(sampler) : scheduler;
    const bool repeated = std::any_of(
        contenders.begin(), contenders.end(), [&](const Contender& other) {
          return other.sampler == sampler && other.scheduler == chosen;
        });
    if (!repeated) contenders.push_back({sampler, chosen});
  };
  for (const std::string& sampler : samplers) {
    const size_t plus = sampler.find('+');
    if (plus != std::string::npos) {
      add(sampler.substr(0, plus), sampler.substr(plus + 1));
      continue;
    }
    for (const std::string& scheduler : schedulers) add(sampler, scheduler);
  }
  return contenders;
}

BenchmarkOptions benchmark_options(const SimulateOptions& options,
                                   const Console& console) {
  BenchmarkOptions out;
  out.simulation.seed = options.seed.value_or(0);
  out.simulation.slots = static_cast<int>(options.slots.value_or(1));
  out.simulation.noise = deviation("--noise", options.noise);
  out.simulation.spread = deviation("--spread", options.spread);
  out.simulation.budgets = parse_budgets(options.budgets);
  out.seeds = static_cast<int>(options.seeds.value_or(5));
  out.calibration = options.calibration;
  std::optional<double> epsilon;
  if (!options.epsilon.empty()) {
    epsilon = parse_number<double>(options.epsilon);
    if (!epsilon) {
      fail_simulate(
          fmt::format("--epsilon: '{}' is not a number", options.epsilon));
    }
  }
  out.make_tuner =
      tuners_with_weights(options.prior, split_list(options.networks), epsilon);
  out.threads = static_cast<int>(options.threads.value_or(
      std::max(1U, std::thread::hardware_concurrency())));
  if (console.err_terminal && !console.quiet) {
    out.progress = [](size_t done, size_t all) {
      fmt::print(stderr, "\r{} of {} studies", done, all);
      if (done == all) fmt::print(stderr, "\r\033[K");
      std::fflush(stderr);
    };
  }
  return out;
}

void refuse_seen(const SimulateOptions& options, const Worlds& worlds,
                 const std::vector<Contender>& contenders) {
  const bool judged =
      options.networks.empty() && !options.allow_seen &&
      std::any_of(contenders.begin(), contenders.end(),
                  [](const Contender& c) { return c.sampler == "convlstm"; });
  if (!judged) return;
  for (const auto& world : worlds) {
    if (!shipped_network_has_seen(world->recipe(), world->task())) continue;
    fail_simulate(fmt::format(
        "the shipped network was trained on task '{}' (give --network FILE of "
        "`surrogate train --leave-out`, judge learnt-gp, or say --allow-seen)",
        world->task()));
  }
}

int simulate_curves(const Console& console, const SimulateOptions& options) {
  const std::vector<Contender> contenders = contenders_of(options);
  const CubeContext context = parse_context(split_list(options.context));
  const Misleading how = misleading_in(options.misleading);
  Worlds worlds;
  for (const std::string& name : options.curves) {
    Worlds more = read_worlds(name, context, how, console);
    std::move(more.begin(), more.end(), std::back_inserter(worlds));
  }
  choose_tasks(split_list(options.tasks), worlds);
  refuse_seen(options, worlds, contenders);
  const BenchmarkOptions benchmark = benchmark_options(options, console);
  const auto runs = run_benchmark(worlds, contenders, benchmark);
  const BudgetLabels labels = label_budgets(benchmark.simulation, worlds);
  const auto rows = summarise(runs, worlds, contenders, labels.numbers);
  const BenchmarkFacts facts = {
      .curves = fmt::format("{}", fmt::join(options.curves, " ")),
      .tasks = tasks_of(worlds),
      .seeds = benchmark.seeds,
      .slots = benchmark.simulation.slots,
      .noise = benchmark.simulation.noise,
      .spread = benchmark.simulation.spread,
      .misleading = options.misleading,
      .seed = benchmark.simulation.seed};
  TextStyle style = style_of(console);
  if (!console.out_terminal) style.columns = kWidest;
  console.print(simulation_table(rows, labels.unit, style));
  if (!options.json_file.empty()) {
    write_output(options.json_file, statistics_json(rows, facts));
  }
  if (!options.plot_file.empty()) {
    write_output(options.plot_file, statistics_svg(rows, facts));
  }
  return kExitOk;
}

}  // namespace

Action declare_simulate(Arguments& arguments) {
  auto options = std::make_shared<SimulateOptions>();
  arguments.describe(
      "Replays recorded curves under every sampler with every scheduler, in "
      "virtual time, and compares the regret: (best - found) / (best - median "
      "of all points), over all tasks and seeds, at each budget of training "
      "steps.");
  arguments.positionals("CURVES", options->curves,
                        "Recorded curves (.npz), or studies' databases.",
                        Complete::file);
  arguments.option("--sampler", options->samplers, "A,B",
                   "Samplers (default: all); gp+asha: with that scheduler.");
  arguments.option("--scheduler", options->schedulers, "X,Y",
                   "Schedulers; 'default' (also without this option): the best "
                   "one for each sampler.");
  arguments.option("--seeds", options->seeds, "N",
                   "Studies of each task (default: 5).", {1, 100'000});
  arguments.option("--slots", options->slots, "N",
                   "Trials at a time (default: 1).", {1, 1000});
  arguments.option("--noise", options->noise, "S",
                   "Standard deviation added to each observation.");
  arguments.option("--spread", options->spread, "S",
                   "Spread of step times between trials: deviation of the "
                   "logarithm.");
  arguments.option("--misleading", options->misleading, "HOW",
                   "Worlds that contradict what was learnt from others: "
                   "reversed (learning rates), shifted (learning rates and "
                   "L2), permuted (all three axes).",
                   Complete::words, misleading_names());
  arguments.option("--budget", options->budgets, "STEPS,..",
                   "Budgets (default: 1, 2, 4, 8, 12, 20 trainings of each "
                   "task).");
  arguments.option("--task", options->tasks, "T,U",
                   "Only these tasks of the file.");
  arguments.option("--context", options->context, "K=V,..",
                   "What the curves' file does not say of them: batch_size, "
                   "width, momentum, depth.");
  arguments.option("--prior", options->prior, "FILE",
                   "A learnt prior in place of the shipped one; each task is "
                   "left out of it.",
                   Complete::file);
  arguments.option("--network", options->networks, "FILE,..",
                   "Weights of the ConvLSTM in place of the shipped ones; each "
                   "task gets the file that was trained without it.");
  arguments.option("--epsilon", options->epsilon, "P",
                   "freeze-thaw: cut trials with less than this chance.");
  arguments.option(
      "--threads", options->threads, "N",
      "Studies at a time (default: the cores); the result is the same.",
      kManyThreads);
  arguments.option("--seed", options->seed, "N", "The first seed (default: 0).",
                   kAnySeed);
  arguments.flag(
      "--calibration", options->calibration,
      "Predict as well, and count how many values lie inside their bands.");
  arguments.flag("--allow-seen", options->allow_seen,
                 "Judge convlstm also on tasks that its network was trained "
                 "on.");
  arguments.option("--json", options->json_file, "FILE",
                   "Write the table as JSON.", Complete::file);
  arguments.option("--plot", options->plot_file, "FILE",
                   "Write regret against budget as SVG.", Complete::file);
  arguments.example("dtune simulate curves.npz --sampler random,sobol",
                    "with each one's own scheduler");
  arguments.example(
      "dtune simulate curves.npz --sampler sobol --scheduler asha,fifo "
      "--seeds 20 --json out.json",
      "two schedulers");
  return [options](const Console& console) {
    return simulate_curves(console, *options);
  };
}

}  // namespace dtune
