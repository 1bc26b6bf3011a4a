// dtune agent, worker: the processes that `dtune run` starts by itself.

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>

#include "app/command.h"
#include "app/job_agent.h"
#include "app/machine.h"
#include "app/signals.h"
#include "app/token_input.h"
#include <fmt/format.h>
#include <sys/stat.h>

#include "dtune/base/encrypt_ranks.h"
#include "dtune/base/file.h"
#include "dtune/base/text.h"
#include "dtune/cluster/agent.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/log.h"
#include "dtune/cluster/worker.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/keys.h"
#include "dtune/config/recipe_file.h"
#include "dtune/study/slots.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

// How long an agent looks for a coordinator of another machine.
constexpr Duration kRejoin = std::chrono::minutes(10);

struct NodeOptions {
  std::string connect;
  std::string study;
  std::string node;
  std::optional<uint64_t> slots;
  std::optional<uint64_t> threads;
  std::string devices;
  std::string fused;
  std::string token_file;
  bool token_stdin = false;
  std::string state;
  std::string wait;
  std::string ports;
  bool encrypt_ranks = false;
  std::string job_key;
  std::string lifetime;
  std::string idle;
  bool stay = false;
};

struct SlotOptions {
  std::string connect;
  std::optional<uint64_t> slot;
  std::optional<uint64_t> seats;
  std::optional<uint64_t> threads;
};

void require(const std::string& value, const char* command, const char* name) {
  if (!value.empty()) return;
  throw Error(
      ErrorKind::config,
      fmt::format("{0}: {1} is missing (see {0} --help)", command, name));
}

// The GPUs that a LibTorch for the CPU cannot use are left alone, so that a
// slot is a core there.
std::vector<std::string> all_devices() {
  std::vector<std::string> devices;
  const Gpus gpus = find_gpus();
  const std::string why = why_unused(gpus, torch_build());
  if (!why.empty()) {
    log_warning("trials run on the CPU: {}", why);
    return devices;
  }
  for (const Gpu& gpu : gpus.usable) devices.push_back(gpu.id);
  return devices;
}

[[noreturn]] void refuse_devices(const std::string& text, const char* what) {
  throw Error(
      ErrorKind::config,
      fmt::format("--devices: '{}' {} (use 0,1, or GPU-..., MIG-..., as "
                  "nvidia-smi -L lists them; auto; none)",
                  text, what));
}

std::vector<std::string> parse_devices(const std::string& text) {
  if (text == "none") return {};
  if (text.empty() || text == "auto") return all_devices();
  std::vector<std::string> devices = split_list(text);
  for (const std::string& word : devices) {
    const bool number =
        word.find_first_not_of("0123456789") == std::string::npos;
    if (!number && !word.starts_with("GPU-") && !word.starts_with("MIG-")) {
      refuse_devices(word, "is not a device");
    }
  }
  if (devices.empty()) refuse_devices(text, "names no device");
  return devices;
}

// 0: auto.
int wanted_fused(const std::string& text) {
  if (text.empty() || text == "1") return 1;
  if (const auto fused = parse_fused(text)) return *fused;
  throw Error(ErrorKind::config,
              fmt::format("--fused: '{}' is not auto, off or 1 to {}", text,
                          kMostFused));
}

// Of the agent's GPUs, those that the driver shows.
std::vector<Gpu> gpus_of(const AgentOptions& agent) {
  if (agent.devices.empty()) return {};
  std::vector<Gpu> gpus = find_gpus().usable;
  std::erase_if(gpus, [&](const Gpu& gpu) {
    return std::find(agent.devices.begin(), agent.devices.end(), gpu.id) ==
           agent.devices.end();
  });
  return gpus;
}

constexpr uint64_t kMaxTokenBytes = 4096;

std::string read_token(const std::string& file) {
  if (file.empty()) return "";
  if (file != "-") {
    const auto others = std::filesystem::perms::group_read |
                        std::filesystem::perms::others_read;
    std::error_code error;
    const auto state = std::filesystem::status(file, error);
    if (std::filesystem::is_regular_file(state) &&
        (state.permissions() & others) != std::filesystem::perms::none) {
      log_warning(
          "{}: other users of this machine can read this token until "
          "it is used (chmod 600 {})",
          file, file);
    }
    return parse_join_token(read_file(file, kMaxTokenBytes), file).text();
  }
  std::string line;
  std::getline(std::cin, line);
  if (line.empty()) {
    throw Error(ErrorKind::config,
                "stdin: no token came (one line, as 'dtune token STUDY' "
                "prints it)");
  }
  return parse_join_token(line, "stdin").text();
}

// A socket in the file system, as of the agent that 'dtune run' starts: its
// folder's permissions are the key. Ports of loopback are open to every user.
bool needs_no_keys(const std::string& endpoint) {
  return !parse_tcp(endpoint) && is_local_endpoint(endpoint);
}

// What to connect with; nothing where no keys are needed.
std::optional<CurveClient> join(const NodeOptions& options,
                                const std::string& token, Duration patience,
                                const std::atomic<int>& stop) {
  if (token.empty() && needs_no_keys(options.connect)) return std::nullopt;
  JoinOptions join;
  join.endpoint = options.connect;
  join.token = token;
  join.node = options.node;
  join.state = options.state.empty() ? state_directory()
                                     : std::filesystem::path(options.state);
  join.patience = patience;
  return join_cluster(join, stop);
}

// Study after study, where it is to stay.
int serve_for(const AgentOptions& agent, bool stay,
              const std::atomic<int>& stop) {
  while (true) {
    const int code = run_agent(agent, stop);
    if (!stay || stop != 0 || code == kExitConfig) return code;
    for (int i = 0; i < 10 && stop == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

// What the agent offers, wherever it joins.
AgentOptions describe_agent(const NodeOptions& options) {
  AgentOptions agent = agent_of_job(job_environment());
  agent.study_id = options.study;
  agent.node = options.node;
  agent.threads_per_slot = static_cast<int>(options.threads.value_or(1));
  agent.slots = static_cast<int>(options.slots.value_or(static_cast<uint64_t>(
      std::max(usable_cores() / std::max(agent.threads_per_slot, 1), 1))));
  agent.devices = parse_devices(options.devices);
  if (!options.slots && !agent.devices.empty()) {
    agent.slots = static_cast<int>(agent.devices.size());
  }
  int fused = wanted_fused(options.fused);
  if (fused == 0) fused = fused_trials(0, gpus_of(agent), agent.slots);
  agent.seats = fused;
  if (int64_t{agent.slots} * fused > kMaxSlots) {
    throw Error(ErrorKind::config,
                fmt::format("--fused: {} slots of {} trials are more than {}",
                            agent.slots, fused, kMaxSlots));
  }
  agent.slots *= fused;
  agent.log_line = [](int slot, const std::string& line) {
    log_info("slot {}: {}", slot, line);
  };
  if (!options.lifetime.empty()) {
    agent.lifetime = parse_duration(options.lifetime);
  }
  if (!options.idle.empty()) agent.idle = parse_duration(options.idle);
  return agent;
}

int serve_job_key(const NodeOptions& options) {
  const StopSignals signals(true);
  ::umask(077);
  JobMeeting meeting;
  meeting.endpoint = options.connect;
  if (options.job_key == "-") {
    meeting.given = read_job_key("-");
  } else {
    meeting.file = options.job_key;
  }
  if (!options.wait.empty()) meeting.wait = parse_duration(options.wait);
  return serve_job(describe_agent(options), meeting, signals.stop());
}

int serve_node(const NodeOptions& options) {
  use_ports(options.ports);
  if (options.encrypt_ranks) encrypt_ranks();
  if (!options.job_key.empty()) return serve_job_key(options);
  require(options.connect, "dtune agent", "--connect");
  const StopSignals signals(true);
  const Duration wait =
      options.wait.empty() ? kRejoin : parse_duration(options.wait);
  AgentOptions agent = describe_agent(options);
  const std::string token =
      options.token_stdin ? read_token_line() : read_token(options.token_file);
  std::optional<EndWithStdin> end_with_stdin;
  if (options.token_stdin) end_with_stdin.emplace();
  agent.curve = join(options, token, wait, signals.stop());
  // The agent that 'dtune run' starts says nothing of --wait, and ends with it.
  if (agent.curve || !options.wait.empty()) {
    agent.rejoin = wait;
    agent.join_timeout = options.stay && agent.curve ? Duration::max() : wait;
  }
  agent.endpoint = options.connect;
  return serve_for(agent, options.stay && agent.curve, signals.stop());
}

// A study's YAML is the same for all its assignments: read it once.
class RecipeCache {
 public:
  TrialRecipe with_point(const std::string& yaml, const Point& point) {
    if (!file_ || yaml != yaml_) {
      file_ = RecipeFile::parse_stored(yaml, "recipe", "");
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
  return load_engine_for(recipe).make_runner(threads);
}

int serve_slot(const SlotOptions& options) {
  require(options.connect, "dtune worker", "--connect");
  const StopSignals signals(true);
  WorkerOptions worker;
  worker.endpoint = options.connect;
  worker.slot = static_cast<int>(options.slot.value_or(0));
  worker.seats = static_cast<int>(options.seats.value_or(1));
  worker.threads = static_cast<int>(options.threads.value_or(1));
  RecipeCache recipes;
  std::mutex mutex;  // of recipes: seats have threads of their own
  worker.parse_recipe = [&](const std::string& yaml, const Point& point) {
    const std::lock_guard lock(mutex);
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

Action declare_guard(Arguments& arguments) {
  auto agent = std::make_shared<std::string>();
  arguments.describe(
      "Kills what an agent leaves behind when it is killed; 'dtune agent' "
      "starts it by itself.");
  arguments.option("--agent", *agent, "NAME", "The agent's process.");
  return [agent](const Console&) {
    require(*agent, "dtune guard", "--agent");
    ::signal(SIGUSR2, SIG_IGN);  // for the agent: its deadline is near
    return run_guard(*agent);
  };
}

Action declare_agent(Arguments& arguments) {
  auto options = std::make_shared<NodeOptions>();
  arguments.describe(
      "Offers the slots of one machine to a study; 'dtune run' starts one "
      "for its own machine by itself. It leaves no process behind, and may end "
      "or die at any time: the study goes on. On another machine it joins with "
      "a token of 'dtune run --listen' or 'dtune token'; after that it is "
      "known there by its own key and needs none.");
  arguments.option("--connect", options->connect, "ENDPOINT",
                   "Of the coordinator, e.g. tcp://10.0.0.1:5555.");
  arguments.option("--token-file", options->token_file, "FILE",
                   "Holds the token; - reads it from stdin.", Complete::file);
  arguments.flag("--token-stdin", options->token_stdin,
                 "Read the token from stdin, and end when stdin closes: for "
                 "ssh, which 'dtune run' uses for the nodes of a recipe.");
  arguments.option("--state", options->state, "DIR",
                   "Keeps this machine's keys (default: ~/.local/state/dtune).",
                   Complete::folder);
  arguments.option("--ports", options->ports, "A-B",
                   "The ports of this machine that its fire wall lets in, for "
                   "ranks.");
  arguments.flag(
      "--encrypt-ranks", options->encrypt_ranks,
      "Encrypt the traffic between ranks of this machine and others (Gloo; "
      "slower).");
  arguments.option("--wait", options->wait, "TIME",
                   "How long to look for a coordinator that is not there "
                   "(default: 10m).");
  arguments.option("--job-key", options->job_key, "FILE",
                   "Join by the key of an engine's job, in place of a token; - "
                   "reads it from stdin.",
                   Complete::file);
  arguments.option("--lifetime", options->lifetime, "TIME",
                   "Its engine ends it after that: no step is begun that would "
                   "not end before.");
  arguments.option("--idle", options->idle, "TIME",
                   "Leave after so long without a trial.");
  arguments.flag("--stay", options->stay,
                 "Serve one study after the other, without end.");
  arguments.option("--study", options->study, "ID",
                   "Refuse other studies than this.");
  arguments.option("--node", options->node, "NAME",
                   "Shown to people (default: the host's name).");
  arguments.option("--slots", options->slots, "N",
                   "Trials at the same time (default: one per core).",
                   {1, kMaxSlots});
  arguments.option("--threads", options->threads, "N",
                   "Threads of one slot (default: 1).", kManyThreads);
  arguments.option("--fused", options->fused, "K",
                   "Trials that a slot trains at the same time: auto, off or a "
                   "number (default: off, as always in studies of commands, "
                   "of several ranks or deterministic ones).");
  arguments.option(
      "--devices", options->devices, "LIST",
      "GPUs of the slots: 0,1, GPU-..., MIG-...; none; default: auto, all that "
      "this dtune can use.");
  arguments.example(
      "dtune agent --connect tcp://10.0.0.1:5555 --token-file token",
      "join the study that runs there");
  return [options](const Console&) { return serve_node(*options); };
}

Action declare_worker(Arguments& arguments) {
  auto options = std::make_shared<SlotOptions>();
  arguments.describe(
      "Trains trials in one slot; agents start workers by themselves.");
  arguments.option("--connect", options->connect, "ENDPOINT", "Of the agent.");
  arguments.option("--slot", options->slot, "N", "The slot's number, from 0.",
                   {0, kMaxSlots});
  arguments.option("--seats", options->seats, "N",
                   "Slots from that one on, whose trials are trained as one "
                   "program (default: 1).",
                   {1, kMaxSlots});
  arguments.option("--threads", options->threads, "N", "Default: 1.",
                   kManyThreads);
  return [options](const Console&) { return serve_slot(*options); };
}

}  // namespace dtune
