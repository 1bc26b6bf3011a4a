#include "app/nodes.h"

#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {

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
  for (const auto& agent : remote_) agent->close();
}

void Nodes::add_local() {
  if (local_) return;
  local_ = std::make_unique<LocalAgent>(
      LocalAgentOptions{.endpoint = options_.local_endpoint,
                        .study_id = options_.study_id,
                        .slots = options_.slots,
                        .log = options_.log});
}

void Nodes::add_ssh(const NodeSpec& node) {
  SshAgentOptions ssh;
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
  remote_.push_back(std::make_unique<SshAgent>(std::move(ssh)));
}

void Nodes::write_log(const std::string& node, const std::string& line) {
  log_ << node << ": " << line << '\n' << std::flush;
}

void Nodes::ensure() {
  if (local_) local_->ensure();
  for (const auto& agent : remote_) agent->ensure();
  check_any_left();
}

void Nodes::check_any_left() const {
  if (local_ || remote_.empty()) return;
  std::string why;
  for (const auto& agent : remote_) {
    if (!agent->given_up()) return;
    why += (why.empty() ? "" : "; ") + agent->problem();
  }
  throw Error(ErrorKind::study, "no node could be started: " + why);
}

std::vector<std::string> Nodes::take_notices() {
  std::vector<std::string> out;
  for (const auto& agent : remote_) {
    for (std::string& notice : agent->take_notices()) {
      out.push_back(std::move(notice));
    }
  }
  return out;
}

}  // namespace dtune
