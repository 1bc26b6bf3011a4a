// What a campaign does to its study.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "app/campaign.h"
#include "app/preload.h"
#include <fmt/format.h>

namespace dtune {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// A trial that has had no memory is not tried again: few of a study's.
constexpr int kMostOutOfMemory = 2;

std::string role_of(const std::string& line) {
  if (contains(line, "dtune agent ") && contains(line, "--node far")) {
    return "far agent";
  }
  for (const char* role : {"agent", "worker", "guard"}) {
    if (contains(line, fmt::format("dtune {} ", role))) return role;
  }
  return contains(line, "--events") ? "coordinator" : "program";
}

}  // namespace

// False: the coordinator is ended.
bool Campaign::strike(const RunningProgram& program) {
  switch (rng_.below(network_ ? 16 : 12)) {
    case 0:
      return kill_all(program);
    case 1:
      return end_coordinator(program, SIGKILL);
    case 2:
      return end_coordinator(program, SIGINT);
    case 3:
      pause();
      break;
    case 4:
      kill_one("agent");
      break;
    case 5:
      kill_one("program");
      break;
    case 6:
      cut_connections();
      break;
    case 7:
      fill_disk();
      break;
    case 8:
      jump_clock();
      break;
    case 9:
      exhaust_memory();
      break;
    case 10:
    case 11:
      kill_one("worker");
      break;
    case 12:
      kill_one("far agent");
      break;
    default:
      cut_network();
  }
  return true;
}

bool Campaign::kill_all(const RunningProgram& program) {
  ++faults_["kill -9: all"];
  for (const Process& one : processes()) ::kill(one.pid, SIGKILL);
  program.send(SIGKILL);  // had it not yet been found
  return false;
}

bool Campaign::end_coordinator(const RunningProgram& program, int signal) {
  ++faults_[signal == SIGKILL ? "kill -9: coordinator" : "interruption"];
  program.send(signal);
  return false;
}

void Campaign::kill_one(const std::string& role) {
  const auto all = with_roles({role});
  if (const Process* one = pick(all)) {
    ++faults_["kill -9: " + role];
    ::kill(one->pid, SIGKILL);
  }
}

// For less than a lease, and for more.
void Campaign::pause() {
  const auto all = with_roles({"coordinator", "agent", "far agent", "worker"});
  if (const Process* one = pick(all)) {
    ++faults_["stopped: " + one->role];
    ::kill(one->pid, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(rng_.below(4) == 0 ? 4000 : 300));
    ::kill(one->pid, SIGCONT);
  }
}

// Those of a gang are there once it trains; one machine alone has none else.
void Campaign::cut_connections() {
  const bool gang = contains(place_.read("disk/campaign.yaml"), "parallel:");
  const int tries = gang ? 100 : 1;
  for (int i = 0; i < tries; ++i) {
    const auto all = with_roles({"worker", "far agent"});
    const Process* one = pick(all);
    if (one != nullptr && shut_connections(one->pid) > 0) {
      ++faults_["connections cut"];
      return;
    }
    std::this_thread::sleep_for(milliseconds(100));
  }
}

// The kernel kills it.
void Campaign::exhaust_memory() {
  if (!memory_.ready() || faults_["out of memory"] >= kMostOutOfMemory) return;
  const auto all = with_roles({"worker", "program"});
  const Process* one = pick(all);
  if (one != nullptr && memory_.take(one->pid)) ++faults_["out of memory"];
}

void Campaign::fill_disk() {
  if (!disk_.mounted()) return;
  ++faults_["full disk"];
  disk_.fill(rng_.below(3) * 20'000);
  std::this_thread::sleep_for(milliseconds(700));
  disk_.make_room();
}

void Campaign::jump_clock() {
  if (preload().empty()) return;
  ++faults_["clock jump"];
  const auto hours = static_cast<int>(rng_.below(9)) - 4;
  place_.write("clock", std::to_string(hours * 3600));
}

// Both ways or one, for less than a lease or for more.
void Campaign::cut_network() {
  const std::string side = rng_.below(2) == 0 ? "a" : "b";
  const milliseconds time{rng_.below(2) == 0 ? 500 : 4000};
  if (rng_.below(2) == 0) {
    ++faults_["cable pulled"];
    network_->pull(side);
    std::this_thread::sleep_for(time);
    network_->plug(side);
  } else {
    ++faults_["one-way partition"];
    network_->mute(side);
    std::this_thread::sleep_for(time);
    network_->unmute(side);
  }
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

}  // namespace dtune
