#include "app/remote_access.h"

#include <algorithm>

#include "app/machine.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/cluster/job_environment.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/gateway.h"
#include "dtune/comm/listener.h"

namespace dtune {
namespace {

// "eth0 10.0.0.1" -> "10.0.0.1".
std::string first_address() {
  for (const std::string& one : interface_addresses()) {
    std::string address = one.substr(one.find(' ') + 1);
    if (!is_loopback(address)) return address;
  }
  throw Error(ErrorKind::config,
              "nodes: this machine has no address beyond loopback that others "
              "could reach (say one with --listen tcp://ADDRESS:PORT)");
}

// Of several interfaces, that which the machine's own name stands for.
std::string own_address() {
  try {
    std::string named = resolve_host(host_name());
    for (const std::string& one : interface_addresses()) {
      if (!is_loopback(named) && one.ends_with(" " + named)) return named;
    }
  } catch (const Error&) {
    // The name stands for nothing; any interface will do.
  }
  return first_address();
}

// Where agents of a job reach this machine.
std::string address_for_job(const JobEnvironment& job, int port) {
  const auto addresses = interface_addresses();
  const bool alone = std::ranges::all_of(addresses, [](const std::string& one) {
    return is_loopback(one.substr(one.find(' ') + 1));
  });
  const bool here = job.symmetric() && job.on_one_host() && alone;
  return TcpEndpoint{here ? "127.0.0.1" : own_address(), port}.text();
}

TcpEndpoint listen_endpoint(const std::string& listen) {
  if (parse_tcp(listen)) return checked_remote(listen, true);
  throw Error(ErrorKind::config,
              fmt::format("--listen: '{}' is not an address to listen on "
                          "(write tcp://10.0.0.1:5555)",
                          listen));
}

// Agents of an engine's jobs come in by a key of their own.
bool has_own_key(const Recipe& recipe) {
  return job_environment().inside_engine() ||
         std::ranges::any_of(recipe.nodes, is_elastic);
}

}  // namespace

void check_remote_access(const Recipe& recipe, const std::string& listen,
                         const std::filesystem::path& database) {
  if (!listen.empty()) {
    const Gateway try_it(
        GatewayOptions{.endpoint = listen_endpoint(listen).text()});
  } else if (!has_remote_nodes(recipe.nodes)) {
    return;
  }
  if (!has_own_key(recipe)) load_cluster_keys(database.parent_path());
}

RemoteAccess::RemoteAccess(const LoadedStudy& loaded, const std::string& listen,
                           JobAccess* job_access)
    : listen_(listen),
      study_(loaded.facts.database),
      asked_(!listen.empty()),
      job_access_(job_access) {
  close_enrolment(loaded.files.enrolment());  // of a run that was killed
  if (listen_.empty() && job_access_ != nullptr) {
    listen_ = address_for_job(job_environment(), job_access_->key().port);
  } else if (listen_.empty()) {
    if (!has_remote_nodes(loaded.study.recipe.nodes)) return;
    listen_ = TcpEndpoint{own_address(), 0}.text();
  }
  const TcpEndpoint endpoint = listen_endpoint(listen_);
  host_ = endpoint.host;
  // First: an address is named as it was written, whatever the keys are.
  gateway_ = std::make_shared<Gateway>(
      GatewayOptions{.endpoint = endpoint.text(), .ports = allowed_ports()});
  EnrolmentOptions access;
  access.keys = job_access_ != nullptr
                    ? job_access_->key().server
                    : load_cluster_keys(loaded.files.database.parent_path());
  access.allowed_file = loaded.files.allowed_keys();
  access.study_id = loaded.study.id;
  access.enrolment = loaded.files.enrolment();
  access_ = std::make_unique<EnrolmentServer>(std::move(access));
  if (job_access_ == nullptr) return;
  access_->security().allowed->add(job_access_->key().agents.public_key);
}

void RemoteAccess::describe(CoordinatorOptions& options) const {
  if (!open()) return;
  const ListenSecurity control = [this] {
    ListenSecurity security = access_->security();
    security.gateway = gateway_;
    return security;
  }();
  // Each server has keys of its own, by which the gateway tells them apart.
  // Agents learn them over the coordinator's connection.
  const auto another = [&control] {
    return ListenSecurity{generate_curve_keys(), control.allowed,
                          control.gateway, nullptr};
  };
  options.security = control;
  options.gangs.security = another();
  options.files.security = another();
  options.remote = options.gangs.remote = options.files.remote =
      gateway_->endpoint();
  options.take_notices = [this] { return access_->take_notices(); };
  options.gang_address = host_;
}

void RemoteAccess::announce(const Console& console,
                            const std::string& endpoint) const {
  if (!open()) return;
  gateway_->open();
  access_->open_enrolment(endpoint);
  if (job_access_ != nullptr) job_access_->open(endpoint);
  if (!asked_) return;
  // What is not read by a person at once is kept in logs, which others read.
  if (!console.out_terminal || job_environment().inside_engine()) {
    console.notice(fmt::format(
        "listening on {}; another machine joins with a token (dtune token {})",
        endpoint, shell_quoted(study_)));
    return;
  }
  console.notice(fmt::format(
      "listening on {0}; another machine joins with\n"
      "  dtune agent --connect {0} --token-file FILE\n"
      "where FILE holds this line, which is good for one machine and one day "
      "(for more\n"
      "machines: dtune token {1}):\n"
      "  {2}",
      endpoint, shell_quoted(study_), make_token()));
}

}  // namespace dtune
