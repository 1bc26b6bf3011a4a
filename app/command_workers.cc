// dtune agent, worker: the processes that `dtune run` starts by itself.

#include <charconv>
#include <memory>
#include <sstream>

#include "app/command.h"
#include "app/machine.h"
#include "app/signals.h"
#include <fmt/format.h>

#include "dtune/cluster/agent.h"
#include "dtune/cluster/worker.h"
#include "dtune/config/recipe_file.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

struct NodeOptions {
  std::string connect;
  std::string study;
  std::string node;
  std::optional<uint64_t> slots;
  std::optional<uint64_t> threads;
  std::string devices;
};

struct SlotOptions {
  std::string connect;
  std::optional<uint64_t> slot;
  std::optional<uint64_t> threads;
};

void require(const std::string& value, const char* command, const char* name) {
  if (!value.empty()) return;
  throw Error(
      ErrorKind::config,
      fmt::format("{0}: {1} is missing (see {0} --help)", command, name));
}

std::vector<int> parse_devices(const std::string& text) {
  std::vector<int> devices;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    int device = -1;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, device);
    if (error != std::errc() || stop != end || device < 0) {
      throw Error(
          ErrorKind::config,
          fmt::format("--devices: '{}' is no device number (use 0,1)", word));
    }
    devices.push_back(device);
  }
  return devices;
}

int serve_node(const NodeOptions& options) {
  require(options.connect, "dtune agent", "--connect");
  require(options.study, "dtune agent", "--study");
  const StopSignals signals(true);
  AgentOptions agent;
  agent.endpoint = options.connect;
  agent.study_id = options.study;
  agent.node = options.node;
  agent.slots = static_cast<int>(
      options.slots.value_or(static_cast<uint64_t>(usable_cores())));
  agent.threads_per_slot = static_cast<int>(options.threads.value_or(1));
  agent.devices = parse_devices(options.devices);
  agent.worker_argv = {own_program(), "worker"};
  return run_agent(agent, signals.stop());
}

// A study's YAML is the same for all its assignments: read it once.
class RecipeCache {
 public:
  TrialRecipe with_point(const std::string& yaml, const Point& point) {
    if (!file_ || yaml != yaml_) {
      file_ = RecipeFile::parse(yaml, "recipe", "");
      yaml_ = yaml;
    }
    TrialRecipe trial = file_->with_point(point);
    // A trial's recipe has nothing left to tune, but the words of a command
    // name the study's parameters.
    trial.recipe.space = file_->recipe().space;
    return trial;
  }

 private:
  std::string yaml_;
  std::optional<RecipeFile> file_;
};

std::unique_ptr<TrialRunner> make_runner(const Recipe& recipe, int threads) {
  if (recipe.command) return make_command_runner();
  return load_engine().make_runner(threads);
}

int serve_slot(const SlotOptions& options) {
  require(options.connect, "dtune worker", "--connect");
  const StopSignals signals(true);
  WorkerOptions worker;
  worker.endpoint = options.connect;
  worker.slot = static_cast<int>(options.slot.value_or(0));
  worker.threads = static_cast<int>(options.threads.value_or(1));
  RecipeCache recipes;
  worker.parse_recipe = [&recipes](const std::string& yaml,
                                   const Point& point) {
    return recipes.with_point(yaml, point);
  };
  return run_worker(
      worker,
      [threads = worker.threads](const Recipe& recipe) {
        return make_runner(recipe, threads);
      },
      signals.stop());
}

}  // namespace

Action declare_agent(Arguments& arguments) {
  auto options = std::make_shared<NodeOptions>();
  arguments.describe(
      "Owns the slots of one machine for one study; 'dtune run' starts one by "
      "itself. It ends with its coordinator and leaves no process behind.");
  arguments.option("--connect", options->connect, "ENDPOINT",
                   "Of the coordinator, e.g. ipc:///run/x/coordinator.");
  arguments.option("--study", options->study, "ID", "The study's id.");
  arguments.option("--node", options->node, "NAME",
                   "Shown to people (default: the host's name).");
  arguments.option("--slots", options->slots, "N",
                   "Trials at the same time (default: one per core).");
  arguments.option("--threads", options->threads, "N",
                   "Threads of one slot (default: 1).");
  arguments.option("--devices", options->devices, "LIST",
                   "CUDA devices, one per slot: 0,1.");
  return [options](const Console&) { return serve_node(*options); };
}

Action declare_worker(Arguments& arguments) {
  auto options = std::make_shared<SlotOptions>();
  arguments.describe(
      "Trains trials in one slot; agents start workers by themselves.");
  arguments.option("--connect", options->connect, "ENDPOINT", "Of the agent.");
  arguments.option("--slot", options->slot, "N", "Its number, from 0.");
  arguments.option("--threads", options->threads, "N", "Default: 1.");
  return [options](const Console&) { return serve_slot(*options); };
}

}  // namespace dtune
