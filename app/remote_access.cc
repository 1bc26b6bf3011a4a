#include "app/remote_access.h"

#include "app/machine.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/listener.h"

namespace dtune {
namespace {

// "eth0 10.0.0.1" -> "10.0.0.1".
std::string first_address() {
  for (const std::string& one : interface_addresses()) {
    const std::string address = one.substr(one.find(' ') + 1);
    if (!is_loopback(address)) return address;
  }
  throw Error(ErrorKind::config,
              "nodes: this machine has no address beyond loopback that others "
              "could reach (say one with --listen tcp://ADDRESS:PORT)");
}

// Enrolment listens on the address at any port: its writer has to
// hear of it as it is written. Other keys than the coordinator's, so that no
// agent takes this listener for it.
void check_listens(const std::string& listen) {
  const SocketContext context;
  ListenOptions options;
  options.remote = listen;
  options.security =
      ListenSecurity{generate_curve_keys(), std::make_shared<AllowList>()};
  const Listener probe(context, options);
}

}  // namespace

RemoteAccess::RemoteAccess(const LoadedStudy& loaded, const std::string& listen)
    : listen_(listen), study_(loaded.facts.database), asked_(!listen.empty()) {
  close_enrolment(loaded.files.enrolment());  // of a run that was killed
  if (listen_.empty()) {
    if (!has_remote_nodes(loaded.study.recipe.nodes)) return;
    listen_ = fmt::format("tcp://{}:0", first_address());
  }
  const auto endpoint = parse_tcp(listen_);
  if (!endpoint) {
    throw Error(
        ErrorKind::config,
        fmt::format("--listen: '{}' is not an address to listen on (write "
                    "tcp://10.0.0.1:5555)",
                    listen_));
  }
  if (asked_) check_listens(listen);
  host_ = resolve_host(endpoint->host);
  EnrolmentOptions access;
  access.keys = load_cluster_keys(loaded.files.database.parent_path());
  access.allowed_file = loaded.files.allowed_keys();
  access.endpoint = TcpEndpoint{host_, 0}.text();
  access.study_id = loaded.study.id;
  access.enrolment = loaded.files.enrolment();
  access_ = std::make_unique<EnrolmentServer>(std::move(access));
}

void RemoteAccess::describe(CoordinatorOptions& options) const {
  if (!open()) return;
  const std::string any_port = TcpEndpoint{host_, 0}.text();
  options.remote = listen_;
  options.security = access_->security();
  options.take_notices = [this] { return access_->take_notices(); };
  options.gangs.remote = options.files.remote = any_port;
  options.gangs.security = options.files.security = access_->security();
  options.gang_address = host_;
}

void RemoteAccess::announce(const Console& console,
                            const std::string& endpoint) const {
  if (!open()) return;
  access_->open_enrolment(endpoint);
  if (!asked_) return;
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
