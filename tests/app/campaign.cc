#include "app/campaign.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "app/history.h"
#include "app/preload.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dtune {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

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
    "budget: { trials: 24 }\n"
    "slots: 2\n";

constexpr const char* kNetwork =
    "study: campaign\n"
    "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 1500 }\n"
    "model: { arch: cnn-small, width: 8 }\n"
    "train: { epochs: 20, batch_size: 32 }\n"
    "sampler: sobol\n";

// What a kind adds to the first lines of its recipe.
std::string recipe_of(const std::string& kind) {
  if (kind == "command") return fmt::format("{}{}", kCommand, kLimits);
  const char* more =
      kind == "cnn" ? "scheduler: asha\nbudget: { trials: 12 }\nslots: 2\n"
      : kind == "allreduce" ? "parallel: { mode: data, ranks: 2 }\nslots: 2\n"
      : kind == "ps"
          ? "parallel: { mode: data, ranks: 2, sync: ps }\nslots: 3\n"
          : "parallel: { mode: model, ranks: 2 }\nslots: 2\n";
  const char* few =
      kind == "cnn" ? "" : "scheduler: fifo\nbudget: { trials: 3 }\n";
  return fmt::format("{}{}{}{}", kNetwork, kLimits, few, more);
}

std::string role_of(const std::string& line) {
  for (const char* role : {"agent", "worker", "guard"}) {
    if (contains(line, fmt::format("dtune {} ", role))) return role;
  }
  return contains(line, "--events") ? "coordinator" : "program";
}

// Ends the TCP connections of another process, as a cut cable does in the end.
int shut_connections(pid_t pid) {
  const auto process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return 0;
  int shut = 0;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    const auto target = fs::read_symlink(entry.path(), error);
    if (error || !target.string().starts_with("socket:")) continue;
    const auto copy = static_cast<int>(
        ::syscall(SYS_pidfd_getfd, process,
                  std::stoi(entry.path().filename().string()), 0));
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const bool connected =
        copy >= 0 &&
        ::getpeername(copy, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (connected && peer.ss_family == AF_INET &&
        ::shutdown(copy, SHUT_RDWR) == 0) {
      ++shut;
    }
    if (copy >= 0) ::close(copy);
  }
  ::close(process);
  return shut;
}

}  // namespace

std::vector<std::string> campaign_kinds() {
  return {"command", "cnn", "allreduce", "ps", "pipeline"};
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
}

int Campaign::run(int most) {
  int done = 0;
  while (true) {
    const bool before = place_.has("disk/campaign.db");
    RunningProgram program =
        place_.start({before ? "resume" : "run", "disk/campaign.yaml",
                      "--quiet", "--events", "events.json"});
    bool alive = true;
    while (alive && done < most) {
      std::this_thread::sleep_for(milliseconds(50 + rng_.below(500)));
      if (over()) break;
      alive = strike(program);
      ++done;
    }
    const Outcome outcome = program.wait();
    // A run that finds no room as it begins leaves the study to the next one.
    const bool no_room =
        outcome.code == 75 && contains(outcome.err, "no space left");
    if (!alive || no_room) continue;
    if (outcome.code != 0) {
      throw std::runtime_error(fmt::format("{}: exit code {}, signal {}: {}",
                                           kind_, outcome.code, outcome.signal,
                                           outcome.err));
    }
    return done;
  }
}

bool Campaign::over() const {
  const Outcome status = place_.run({"status", "disk/campaign.db", "--json"});
  if (status.code != 0) return false;  // it has just begun
  return nlohmann::json::parse(status.out)["state"] == "finished";
}

// False: the coordinator was the target.
bool Campaign::strike(const RunningProgram& program) {
  switch (rng_.below(11)) {
    case 0:
      ++faults_["kill -9 of all"];
      for (const Process& one : processes()) ::kill(one.pid, SIGKILL);
      return false;
    case 1:
      ++faults_["kill -9 of the coordinator"];
      program.send(SIGKILL);
      return false;
    case 2:
      ++faults_["interruption"];
      program.send(SIGINT);
      return false;
    case 3:
      return pause();
    case 4:
      return kill_one("agent");
    case 5:
      return kill_one(kind_ == "command" ? "program" : "worker");
    case 6:
      return cut_connections();
    case 7:
      return fill_disk();
    case 8:
      return jump_clock();
    default:
      return kill_one("worker");
  }
}

bool Campaign::kill_one(const std::string& role) {
  const auto all = with_roles({role});
  if (const Process* one = pick(all)) {
    ++faults_[fmt::format("kill -9 of a {} ({})", role, kind_)];
    ::kill(one->pid, SIGKILL);
  }
  return true;
}

// For less than a lease, and for more.
bool Campaign::pause() {
  const auto all = with_roles({"coordinator", "agent", "worker"});
  if (const Process* one = pick(all)) {
    ++faults_["stop of a " + one->role];
    ::kill(one->pid, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(rng_.below(4) == 0 ? 4000 : 300));
    ::kill(one->pid, SIGCONT);
  }
  return true;
}

bool Campaign::cut_connections() {
  const auto all = with_roles({"worker"});
  if (const Process* one = pick(all); one && shut_connections(one->pid) > 0) {
    ++faults_[fmt::format("connections cut ({})", kind_)];
  }
  return true;
}

bool Campaign::fill_disk() {
  if (!disk_.mounted()) return true;
  ++faults_["full disk"];
  disk_.fill(rng_.below(3) * 20'000);
  std::this_thread::sleep_for(milliseconds(700));
  disk_.make_room();
  return true;
}

bool Campaign::jump_clock() {
  if (preload().empty()) return true;
  ++faults_["clock jump"];
  const auto hours = static_cast<int>(rng_.below(9)) - 4;
  place_.write("clock", std::to_string(hours * 3600));
  return true;
}

std::vector<Campaign::Process> Campaign::processes() const {
  std::vector<Process> found;
  for (std::string line : place_.orphans(0)) {
    std::replace(line.begin(), line.end(), '\0', ' ');
    found.push_back({std::stoi(line), role_of(line)});
  }
  return found;
}

std::vector<Campaign::Process> Campaign::with_roles(
    const std::vector<std::string>& roles) const {
  std::vector<Process> all = processes();
  std::erase_if(all, [&](const Process& one) {
    return std::find(roles.begin(), roles.end(), one.role) == roles.end();
  });
  return all;
}

const Campaign::Process* Campaign::pick(const std::vector<Process>& among) {
  return among.empty() ? nullptr : &among[rng_.below(among.size())];
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
  const bool model = place_.has("disk/campaign.files/model.safetensors");
  const auto kinds = campaign_kinds();
  if (kind_ != "command" && !model &&
      std::find(kinds.begin(), kinds.end(), kind_) != kinds.end()) {
    found.push_back("there is no model");
  }
  return found;
}

}  // namespace dtune
