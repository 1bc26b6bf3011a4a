// dtune rank: one rank of a gang that belongs to no study (`dtune bench train`
// starts them).

#include <atomic>
#include <cstdio>
#include <memory>

#include "app/command.h"
#include "app/signals.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/config/recipe_file.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

struct RankOptions {
  std::string recipe;
  std::string data;
  std::string connect;
  std::string gang;
  std::optional<uint64_t> member;
  std::optional<uint64_t> members;
  std::optional<uint64_t> steps;
  std::optional<uint64_t> threads;
  std::optional<uint64_t> seed;
};

// The last step of a trial is as long as what is left of its epochs: none of
// these is the last.
constexpr int kNoHorizon = 1'000'000;

TrialAssignment assignment_of(const RankOptions& options) {
  const RecipeFile file = RecipeFile::load(options.recipe, {});
  TrialAssignment out;
  out.study_id = "bench";
  out.trial = 1;
  out.attempt = 1;
  out.recipe = file.recipe();
  out.recipe_yaml = file.resolved_yaml();
  out.horizon = kNoHorizon;
  out.seed = options.seed.value_or(0);
  out.threads = static_cast<int>(options.threads.value_or(1));
  out.prepared_data = options.data;
  out.deterministic = out.recipe.deterministic;
  if (options.connect.empty()) return out;
  RankInfo rank;
  rank.gang = options.gang;
  rank.endpoint = options.connect;
  rank.member = static_cast<int>(options.member.value_or(0));
  rank.members = static_cast<int>(options.members.value_or(1));
  out.rank = rank;
  return out;
}

// A line of JSON for each step.
void say(const StepReport& report) {
  nlohmann::json line = {{"step", report.step}, {"seconds", report.seconds}};
  line["metrics"] = report.metrics;
  std::printf("%s\n", json_text(line).c_str());
  std::fflush(stdout);
}

int run_rank(const RankOptions& options) {
  const StopSignals signals(true);
  const TrialAssignment assignment = assignment_of(options);
  const auto runner =
      load_engine_for(assignment.recipe).make_runner(assignment.threads);
  const auto session = runner->start(assignment);
  const std::atomic<bool> never{false};
  const auto steps = static_cast<int>(options.steps.value_or(1));
  while (session->steps_done() < steps && signals.stop() == 0) {
    say(session->run_step(never));
  }
  return kExitOk;
}

}  // namespace

Action declare_rank(Arguments& arguments) {
  auto options = std::make_shared<RankOptions>();
  arguments.describe(
      "Trains as one rank of a gang that belongs to no study; 'dtune bench "
      "train' starts them by itself.");
  arguments.option("--recipe", options->recipe, "FILE", "The recipe.",
                   Complete::file);
  arguments.option("--data", options->data, "FILE", "The prepared data.",
                   Complete::file);
  arguments.option("--connect", options->connect, "ENDPOINT",
                   "Of the gang's server; without it this rank is alone.");
  arguments.option("--gang", options->gang, "NAME", "Of the gang.");
  arguments.option("--member", options->member, "N", "Its place, from 0.");
  arguments.option("--members", options->members, "N", "Of the gang.");
  arguments.option("--steps", options->steps, "N", "Default: 1.");
  arguments.option("--threads", options->threads, "N", "Default: 1.");
  arguments.option("--seed", options->seed, "N", "Default: 0.", kAnySeed);
  return [options](const Console&) { return run_rank(*options); };
}

}  // namespace dtune
