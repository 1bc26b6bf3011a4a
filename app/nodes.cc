#include "app/nodes.h"

#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/cluster/local_launcher.h"
#include "dtune/cluster/ssh_launcher.h"

namespace dtune {
namespace {

std::string join_numbers(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

std::vector<std::string> local_argv(const NodesOptions& options) {
  const SlotPlan& plan = options.slots;
  std::vector<std::string> argv = {own_program(), "agent",
                                   "--connect",   options.local_endpoint,
                                   "--study",     options.study_id,
                                   "--slots",     std::to_string(plan.slots),
                                   "--threads",   std::to_string(plan.threads)};
  if (!plan.devices.empty()) {
    argv.insert(argv.end(), {"--devices", join_numbers(plan.devices)});
  }
  return argv;
}

}  // namespace

Nodes::Nodes(NodesOptions options)
    : options_(std::move(options)), log_(options_.log, std::ios::app) {
  if (options_.nodes.empty()) add_local();
  for (const NodeSpec& node : options_.nodes) {
    if (is_local(node)) {
      add_local();
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
                           .log = options_.log}));
}

void Nodes::add_ssh(const NodeSpec& node) {
  SshLauncherOptions ssh;
  ssh.address = parse_ssh_address(node.address);
  if (options_.remote_endpoint.empty() || !options_.make_token) {
    throw Error(ErrorKind::config,
                fmt::format("{}: this study has no address that other machines "
                            "can reach (give one with --listen)",
                            node.address));
  }
  ssh.node = ssh.address.host;
  ssh.version = "dtune " DTUNE_VERSION;
  ssh.argv = {"agent",   "--connect",       options_.remote_endpoint,
              "--study", options_.study_id, "--node",
              ssh.node,  "--threads",       std::to_string(options_.threads)};
  // Where the coordinator is silent it ends, and is started again from here.
  ssh.argv.insert(ssh.argv.end(), {"--wait", "1m"});
  if (node.slots > 0) {
    ssh.argv.insert(ssh.argv.end(), {"--slots", std::to_string(node.slots)});
  }
  ssh.make_token = options_.make_token;
  ssh.log = [this, name = ssh.node](const std::string& line) {
    write_log(name, line);
  };
  launchers_.push_back(std::make_unique<SshLauncher>(std::move(ssh)));
}

void Nodes::write_log(const std::string& node, const std::string& line) {
  log_ << node << ": " << line << '\n' << std::flush;
}

void Nodes::ensure() {
  for (const auto& launcher : launchers_) launcher->ensure();
  check_any_left();
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
