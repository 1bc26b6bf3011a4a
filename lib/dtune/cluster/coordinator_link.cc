#include "dtune/cluster/coordinator_link.h"

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/cluster/log.h"
#include "dtune/comm/endpoint.h"

namespace dtune {
namespace {

// A coordinator that is just starting breaks a handshake or two.
constexpr int kMaxMismatches = 10;

}  // namespace

CoordinatorLink::CoordinatorLink(const std::string& endpoint,
                                 const std::optional<CurveClient>& curve)
    : endpoint_(endpoint), curve_(curve), address_(endpoint) {
  if (const auto tcp = parse_tcp(endpoint)) {
    const std::string host = resolve_host(tcp->host);
    if (!curve && !is_loopback(host)) {
      throw Error(ErrorKind::config,
                  fmt::format("{}: is on another machine, so this agent has to "
                              "join with a token (--token-file FILE, or - for "
                              "stdin; made by 'dtune token STUDY')",
                              endpoint));
    }
    if (is_loopback(host) && !names_loopback(tcp->host)) {
      hint_ = fmt::format(
          "'{}' is this machine's own address {} here (a line in /etc/hosts?); "
          "give the coordinator's numeric address",
          tcp->host, host);
      log_warning("{}: {}", endpoint, hint_);
    }
  }
  connect();
  if (curve) log_info("connecting to {} ({})", endpoint, address_);
}

void CoordinatorLink::reconnect() {
  monitor_.reset();
  socket_.reset();
  connect();
}

void CoordinatorLink::connect() {
  if (auto tcp = parse_tcp(endpoint_)) {
    tcp->host = resolve_host(tcp->host);
    address_ = tcp->text();
  }
  SocketOptions options;
  options.client = curve_;
  socket_ = std::make_unique<Socket>(context_, Socket::Kind::dealer, options);
  monitor_ = std::make_unique<ConnectionMonitor>(context_, *socket_);
  socket_->connect(address_);
  mismatches_ = 0;
}

void CoordinatorLink::check() {
  const std::string before = trouble_;
  // Where a coordinator was before, connections that are closed at once are a
  // tunnel's or a proxy's that has no coordinator behind it now.
  for (const ConnectionEvent event : monitor_->take()) {
    if (event == ConnectionEvent::established) {
      trouble_.clear();
      mismatches_ = 0;
      admitted_ = true;
    } else if (event == ConnectionEvent::unreachable) {
      trouble_ =
          "there is no answer (is the coordinator running, and is its port "
          "open to this machine?)";
    } else if (event == ConnectionEvent::broken) {
      if (trouble_.empty()) trouble_ = "the connection broke";
    } else if (event == ConnectionEvent::denied) {
      throw Error(ErrorKind::config,
                  fmt::format("{}: the coordinator does not know this "
                              "machine's key (let it join with a fresh token: "
                              "--token-file)",
                              endpoint_));
    } else if (!admitted_ && ++mismatches_ >= kMaxMismatches) {
      throw Error(
          ErrorKind::config,
          curve_ ? fmt::format("{}: what listens there is not the "
                               "coordinator that this machine has joined (was "
                               "its key replaced? join with a fresh token)",
                               endpoint_)
                 : fmt::format("{}: what listens there requires keys (join "
                               "with a token: --token-file)",
                               endpoint_));
    }
  }
  if (!trouble_.empty() && !hint_.empty() && !trouble_.ends_with(hint_)) {
    trouble_ += "; " + hint_;
  }
  if (curve_ && trouble_ != before) {
    if (trouble_.empty()) {
      log_info("{}: connected", endpoint_);
    } else {
      log_warning("{}: {}; trying on", endpoint_, trouble_);
    }
  }
}

}  // namespace dtune
