#include "app/nodes.h"

#include <utility>

#include <fmt/format.h>

#include "dtune/base/encrypt_ranks.h"
#include "dtune/base/error.h"
#include "dtune/base/port_range.h"
#include "dtune/cluster/local_launcher.h"
#include "dtune/cluster/slurm_launcher.h"
#include "dtune/cluster/ssh_launcher.h"
#include "dtune/study/slots.h"
#include "dtune/submit/kubernetes_launcher.h"

namespace dtune {
namespace {

std::vector<std::string> local_argv(const NodesOptions& options) {
  const SlotPlan& plan = options.slots;
  std::vector<std::string> argv = {own_program(), "agent",
                                   "--connect",   options.local_endpoint,
                                   "--study",     options.study_id,
                                   "--slots",     std::to_string(plan.slots),
                                   "--fused",     std::to_string(plan.fused),
                                   "--threads",   std::to_string(plan.threads)};
  const std::string devices = fmt::format("{}", fmt::join(plan.devices(), ","));
  argv.insert(argv.end(), {"--devices", devices.empty() ? "none" : devices});
  return argv;
}

}  // namespace

Nodes::Nodes(NodesOptions options)
    : options_(std::move(options)), log_(options_.log) {
  if (options_.nodes.empty()) add_local();
  for (const NodeSpec& node : options_.nodes) {
    if (is_local(node)) {
      add_local();
    } else if (is_elastic(node)) {
      add_engine(node);
    } else {
      add_ssh(node);
    }
  }
}

// All get the signal before any is waited for.
Nodes::~Nodes() {
  for (const auto& launcher : launchers_) launcher->close();
}

void Nodes::add_local() {
  if (has_local_) return;
  has_local_ = true;
  launchers_.push_back(std::make_unique<LocalLauncher>(
      LocalLauncherOptions{.argv = local_argv(options_),
                           .study_id = options_.study_id,
                           .log = &log_}));
}

void Nodes::add_ssh(const NodeSpec& node) {
  SshLauncherOptions ssh;
  ssh.address = parse_ssh_address(node.address);
  check_reachable(node);
  ssh.node = ssh.address.host;
  ssh.version = "dtune " DTUNE_VERSION;
  ssh.argv = {"agent",   "--connect",       options_.remote_endpoint,
              "--study", options_.study_id, "--node",
              ssh.node,  "--threads",       std::to_string(options_.threads)};
  // Where the coordinator is silent it ends, and is started again from here.
  ssh.argv.insert(ssh.argv.end(), {"--devices", devices_elsewhere(), "--fused",
                                   fused_word(options_.fused), "--wait", "1m"});
  if (const PortRange ports = allowed_ports(); ports.first > 0) {
    ssh.argv.insert(ssh.argv.end(),
                    {"--ports", fmt::format("{}-{}", ports.first, ports.last)});
  }
  if (encrypts_ranks()) ssh.argv.emplace_back("--encrypt-ranks");
  if (node.slots > 0) {
    ssh.argv.insert(ssh.argv.end(), {"--slots", std::to_string(node.slots)});
  }
  ssh.make_token = options_.make_token;
  ssh.log = [this, name = ssh.node](const std::string& line) {
    write_log(name, line);
  };
  launchers_.push_back(std::make_unique<SshLauncher>(std::move(ssh)));
}

const char* Nodes::devices_elsewhere() const {
  return options_.gpus ? "auto" : "none";
}

void Nodes::check_reachable(const NodeSpec& node) const {
  if (!options_.remote_endpoint.empty() && options_.make_token) return;
  throw Error(ErrorKind::config,
              fmt::format("{}: this study has no address that other machines "
                          "can reach (give one with --listen)",
                          node.address));
}

// Of an agent that an engine starts: it takes its slots from what its job has.
std::vector<std::string> Nodes::options_of_agent(const NodeSpec& node,
                                                 Duration lifetime,
                                                 Duration idle) const {
  std::vector<std::string> words = {"--study", options_.study_id, "--threads",
                                    std::to_string(options_.threads)};
  const auto add_time = [&](const char* option, Duration time) {
    if (time.count() <= 0) return;
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
    words.insert(words.end(), {option, fmt::format("{}s", seconds)});
  };
  add_time("--lifetime", lifetime);
  // Ranks of a gang wait for nodes that are still in the queue.
  if (!options_.gangs) add_time("--idle", idle);
  add_time("--wait", std::chrono::minutes(2));
  words.insert(words.end(), {"--devices", devices_elsewhere(), "--fused",
                             fused_word(options_.fused)});
  if (encrypts_ranks()) words.emplace_back("--encrypt-ranks");
  if (node.slots > 0) {
    words.insert(words.end(), {"--slots", std::to_string(node.slots)});
  }
  return words;
}

void Nodes::add_engine(const NodeSpec& node) {
  check_reachable(node);
  const EngineAddress address = parse_engine_address(node.address);
  if (address.engine == "k8s") {
    add_kubernetes(node, address);
  } else {
    add_slurm(node, address);
  }
}

void Nodes::add_slurm(const NodeSpec& node, const EngineAddress& address) {
  check_slurm_address(address);
  SlurmLauncherOptions slurm;
  slurm.address = address;
  slurm.study_id = options_.study_id;
  slurm.logs = options_.log.parent_path();
  slurm.agent = {own_program(), "agent", "--job-key",
                 options_.job_key.string()};
  for (std::string& word :
       options_of_agent(node, slurm_time(address), slurm_idle(address))) {
    slurm.agent.push_back(std::move(word));
  }
  launchers_.push_back(std::make_unique<SlurmLauncher>(std::move(slurm)));
}

void Nodes::add_kubernetes(const NodeSpec& node, const EngineAddress& address) {
  KubernetesLauncherOptions pods;
  pods.address = address;
  pods.study_id = options_.study_id;
  pods.job_key = options_.job_key;
  pods.agent = options_of_agent(node, Duration(0), kubernetes_idle(address));
  launchers_.push_back(std::make_unique<KubernetesLauncher>(std::move(pods)));
}

void Nodes::set_demand(const Demand& demand) {
  for (const auto& launcher : launchers_) launcher->set_demand(demand);
}

void Nodes::write_log(const std::string& node, const std::string& line) {
  log_.write(node + ": " + line);
}

void Nodes::ensure() {
  for (const auto& launcher : launchers_) launcher->ensure();
  check_any_left();
}

void Nodes::read_output() {
  for (const auto& launcher : launchers_) launcher->read_output();
}

void Nodes::check_any_left() const {
  std::string why;
  for (const auto& launcher : launchers_) {
    if (!launcher->given_up()) return;
    why += (why.empty() ? "" : "; ") + launcher->problem();
  }
  throw Error(ErrorKind::study, "no node could be started: " + why);
}

std::vector<std::string> Nodes::take_notices() {
  std::vector<std::string> out;
  for (const auto& launcher : launchers_) {
    for (std::string& notice : launcher->take_notices()) {
      out.push_back(std::move(notice));
    }
  }
  return out;
}

}  // namespace dtune
