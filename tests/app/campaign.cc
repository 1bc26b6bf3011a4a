#include "app/campaign.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "app/history.h"
#include "app/preload.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtune {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Much longer than any of these studies, on a machine that does other work.
constexpr seconds kCampaignPatience{400};

constexpr const char* kScript =
    "s=0; [ -e $DTUNE_CHECKPOINT ] && s=$(cat $DTUNE_CHECKPOINT)\n"
    "setsid sleep 1000 &\n"
    "while [ $s -lt 8 ]; do\n"
    "  sleep 0.02; s=$((s + 1))\n"
    "  echo $s > $DTUNE_CHECKPOINT.$$\n"
    "  mv $DTUNE_CHECKPOINT.$$ $DTUNE_CHECKPOINT\n"
    "  echo step=$s val_accuracy=0.$s$DTUNE_TRIAL\n"
    "done\n";

constexpr const char* kLimits =
    "limits: { retries: 1000, heartbeat: 300ms, lease: 3s, grace: 500ms }\n";

constexpr const char* kCommand =
    "study: campaign\n"
    "command: { run: [sh, ../script.sh], steps: 8 }\n"
    "space: { x: { log: [0.01, 1] } }\n"
    "objective: val_accuracy\n"
    "sampler: sobol\n"
    "scheduler: asha\n"
    "budget: { trials: 24 }\n";

constexpr const char* kNetwork =
    "study: campaign\n"
    "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 1500 }\n"
    "model: { arch: cnn-small, width: 8 }\n"
    "train: { epochs: 20, batch_size: 32 }\n"
    "sampler: sobol\n";

constexpr const char* kGang = "scheduler: fifo\nbudget: { trials: 3 }\n";

std::string recipe_of(const std::string& kind) {
  static const std::map<std::string, std::vector<const char*>> kRecipes = {
      {"command", {kCommand, "slots: 2\n"}},
      {"machines", {kCommand, "slots: 1\n"}},
      {"cnn",
       {kNetwork, "scheduler: asha\nbudget: { trials: 12 }\nslots: 2\n"}},
      {"allreduce",
       {kNetwork, kGang, "parallel: { mode: data, ranks: 2 }\nslots: 2\n"}},
      {"ps",
       {kNetwork, kGang,
        "parallel: { mode: data, ranks: 2, sync: ps }\nslots: 3\n"}},
      {"pipeline",
       {kNetwork, kGang, "parallel: { mode: model, ranks: 2 }\nslots: 2\n"}}};
  std::string recipe = kLimits;
  for (const char* part : kRecipes.at(kind)) recipe += part;
  return recipe;
}

std::string listen_at() {
  return fmt::format("tcp://{}:5555", toy::Network::kAddressA);
}

}  // namespace

std::vector<std::string> campaign_kinds() {
  return {"command", "cnn", "allreduce", "ps", "pipeline", "machines"};
}

Campaign::Campaign(const std::string& kind, uint64_t seed)
    : kind_(kind), rng_(seed), disk_(place_, "disk", "size=64m") {
  place_.write("script.sh", kScript);
  if (fs::exists(kind)) {
    fs::copy_file(kind, place_ / "disk/campaign.yaml");
    kind_ = fs::path(kind).stem().string();
  } else {
    place_.write("disk/campaign.yaml", recipe_of(kind));
  }
  place_.write("clock", "0");
  place_.environment["DTUNE_TEST_CLOCK"] = (place_ / "clock").string();
  place_.environment["LD_PRELOAD"] = preload();
  if (kind != "machines") return;
  network_ = std::make_unique<toy::Network>();
  if (!network_->ready()) network_.reset();  // one machine, then
  place_.run({"keygen"});
}

int Campaign::fault_count() const {
  return std::accumulate(
      faults_.begin(), faults_.end(), 0,
      [](int sum, const auto& fault) { return sum + fault.second; });
}

void Campaign::run(int most) {
  while (true) {
    RunningProgram program = start();
    bool alive = true;
    while (alive && fault_count() < most) {
      wait_a_moment(program);
      if (over()) break;
      keep_far_agents();
      alive = strike(program);
    }
    if (alive) keep_far_agents();
    const Outcome outcome = program.wait(kCampaignPatience);
    if (!alive || may_go_on(outcome)) continue;
    end_far_agents();
    if (outcome.code == 0) return;
    throw std::runtime_error(fmt::format("{}: exit code {}, signal {}: {}",
                                         kind_, outcome.code, outcome.signal,
                                         outcome.err));
  }
}

// Every second time until a step is shown, so that not only beginnings are met.
void Campaign::wait_a_moment(const RunningProgram& program) {
  constexpr seconds kMost{15};
  const auto until = std::chrono::steady_clock::now() + kMost;
  std::error_code none_yet;
  const auto size = [&] {
    return fs::file_size(place_ / "events.json", none_yet);
  };
  const auto before = size();
  const bool step = rng_.below(2) == 0;
  std::this_thread::sleep_for(milliseconds(50 + rng_.below(500)));
  while (step && size() == before && !program.ended() &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// A run that finds no room as it begins leaves the study to the next one; so
// does one whose final training has failed, here for want of memory.
bool Campaign::may_go_on(const Outcome& outcome) {
  if (outcome.code == 75) return contains(outcome.err, "no space left");
  return outcome.code == 3 && ++failures_ <= faults_["out of memory"];
}

std::vector<std::string> Campaign::coordinator_words() const {
  std::vector<std::string> words = {
      place_.has("disk/campaign.db") ? "resume" : "run", "disk/campaign.yaml",
      "--quiet", "--events", "events.json"};
  if (network_) words.insert(words.end(), {"--listen", listen_at()});
  return words;
}

RunningProgram Campaign::start() {
  const auto words = coordinator_words();
  return network_ ? place_.start(words, false, network_->inside("a"))
                  : place_.start(words);
}

// As a service would. Their keys outlive them, in --state.
void Campaign::keep_far_agents() {
  if (!network_) return;
  for (const std::string name : {"far1", "far2"}) {
    auto& agent = far_agents_[name];
    if (agent && !agent->ended()) continue;
    const std::string token = name + ".token";
    if (!place_.has(token)) {
      const Outcome made =
          place_.run({"token", "disk/campaign.yaml", "--json"});
      if (made.code != 0) return;  // the study has just begun
      const std::string text = nlohmann::json::parse(made.out)["token"];
      place_.write(token, text + "\n");
      fs::permissions(place_ / token, fs::perms::owner_read);
    }
    agent.reset(new RunningProgram(place_.start(
        {"agent", "--connect", listen_at(), "--token-file", token, "--node",
         name, "--state", name, "--slots", "1", "--wait", "100s"},
        false, network_->inside("b"))));
  }
}

void Campaign::end_far_agents() {
  for (const auto& [name, agent] : far_agents_) {
    agent->send(SIGTERM);
    agent->wait();
  }
  far_agents_.clear();
}

bool Campaign::over() const {
  const Outcome status = place_.run({"status", "disk/campaign.db", "--json"});
  if (status.code != 0) return false;  // it has just begun
  return nlohmann::json::parse(status.out)["state"] == "finished";
}

bool Campaign::has_model() const {
  return place_.has("disk/campaign.files/model.safetensors");
}

std::vector<std::string> Campaign::problems() const {
  auto found =
      contradictions(place_ / "disk/campaign.db", place_ / "events.json");
  for (const std::string& orphan : place_.orphans()) {
    found.push_back("left behind: process " + orphan);
  }
  for (const auto& entry : fs::recursive_directory_iterator(place_ / "disk")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".tmp") || name.starts_with("probe-") ||
        contains(name, ".new-")) {
      found.push_back("left behind: " + entry.path().string());
    }
  }
  const bool trains = contains(place_.read("disk/campaign.yaml"), "model:");
  if (trains && !has_model()) found.emplace_back("there is no model");
  return found;
}

}  // namespace dtune
