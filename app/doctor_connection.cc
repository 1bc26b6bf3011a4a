#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "app/doctor.h"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/port_range.h"
#include "dtune/base/tcp_socket.h"
#include "dtune/cluster/coordinator_link.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/keys.h"
#include "dtune/comm/monitor.h"
#include "dtune/gang/own_address.h"

namespace dtune {
namespace {

constexpr int kConnectMs = 3000;
constexpr Duration kAnswer = std::chrono::seconds(5);

Finding problem(const std::string& topic, const std::string& what,
                const std::string& remedy) {
  return {topic, Health::problem, what, remedy};
}

// errno of a connection that was tried; 0: it was made.
int try_port(const std::string& host, int port) {
  const AddressList address = numeric_address(host, port);
  if (address == nullptr) return EINVAL;
  const Descriptor one = new_tcp_socket(*address);
  int code = ::connect(one.get(), address->ai_addr, address->ai_addrlen) == 0
                 ? 0
                 : errno;
  if (code == EINPROGRESS) {
    pollfd item{one.get(), POLLOUT, 0};
    code = ETIMEDOUT;
    socklen_t size = sizeof code;
    if (::poll(&item, 1, kConnectMs) == 1) {
      ::getsockopt(one.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    }
  }
  return code;
}

bool can_listen(const std::string& host, int port) {
  const AddressList address = numeric_address(host, port);
  return address != nullptr && listen_at(*address, 1).get() >= 0;
}

// Where ranks and parameter servers of this machine will listen.
Finding check_own_ports(const std::string& endpoint, const PortRange& range) {
  const std::string address = gang::own_address(endpoint);
  const int count = range.last - range.first + 1;
  int free = 0;
  for (int port = range.first; port <= range.last; ++port) {
    free += can_listen(address, port) ? 1 : 0;
  }
  const std::string ports =
      fmt::format("{}-{} of {}", range.first, range.last, address);
  if (free == 0) {
    return problem(
        "ports", fmt::format("none of the ports {} is free", ports),
        "see what listens there ('ss -ltnp'), or give other --ports");
  }
  return {"ports", Health::good,
          fmt::format("{} of the {} ports {} are free for ranks", free, count,
                      ports),
          ""};
}

Finding check_port(const std::string& host, int port) {
  const std::string where = fmt::format("{} port {}", host, port);
  const int code = try_port(host, port);
  if (code == 0) return {"port", Health::good, where + " is open", ""};
  if (code == ECONNREFUSED) {
    return problem("port", "nothing listens at " + where,
                   "start the study there with --listen, or correct the port");
  }
  if (code == ETIMEDOUT) {
    return problem("port", "no answer from " + where,
                   "open the port in the fire walls between the machines");
  }
  return problem("port", where + ": " + errno_text(code),
                 "check the address and the routes to it");
}

// Nothing that runs compares the clocks of two machines; people do.
Finding check_clock(int64_t coordinator_ms) {
  constexpr int64_t kMost = 2000;
  const int64_t ahead = system_clock().wall_ms() - coordinator_ms;
  const std::string apart =
      format_duration(std::chrono::milliseconds(std::abs(ahead)));
  if (std::abs(ahead) <= kMost) {
    return {"clock", Health::good, "as the coordinator's, to " + apart, ""};
  }
  return {"clock", Health::note,
          fmt::format("{} {} the coordinator's", apart,
                      ahead > 0 ? "ahead of" : "behind"),
          "studies are not harmed, but times in logs cannot be compared: "
          "synchronise the clocks ('timedatectl set-ntp true')"};
}

// Asks for a study that does not exist: the answer proves that each side has
// the other's key and that both have one protocol version.
std::vector<Finding> check_answer(const std::string& endpoint,
                                  const std::optional<CurveClient>& curve) {
  CoordinatorLink link(endpoint, curve);
  control::Hello hello;
  hello.study_id = "?";
  hello.node = hello.agent = "doctor";
  hello.slots = 0;
  const Frames message = {encode(hello)};
  bool sent = false;
  const MonoTime end = system_clock().now() + kAnswer;
  while (system_clock().now() < end) {
    link.check();
    sent = sent || link.send(message);
    if (const auto frames = link.receive()) {
      const auto answer =
          decode(frames->front());  // throws if of another version
      std::vector<Finding> findings = {
          {"answer", Health::good,
           "the coordinator lets this machine in, and is of this version", ""}};
      const auto* bye = std::get_if<control::Bye>(&answer);
      if (bye != nullptr && bye->wall_ms > 0) {
        findings.push_back(check_clock(bye->wall_ms));
      }
      return findings;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {problem(
      "answer",
      link.trouble().empty() ? "no coordinator answers" : link.trouble(),
      curve ? "check that what listens there is 'dtune run --listen'"
            : "check that what listens there is 'dtune run --listen', and join "
              "with a token: 'dtune token STUDY' there prints one")};
}

// What becomes of a handshake with the token's key; nothing is asked for, so
// that the token can still be used.
std::optional<ConnectionEvent> greet_with(const JoinToken& token,
                                          const std::string& address) {
  const SocketContext context;
  SocketOptions options;
  options.client = CurveClient{
      token.server_key, {public_key_of(token.secret_key), token.secret_key}};
  Socket socket(context, Socket::Kind::dealer, options);
  ConnectionMonitor monitor(context, socket);
  socket.connect(address);
  const MonoTime end = system_clock().now() + kAnswer;
  while (system_clock().now() < end) {
    for (const ConnectionEvent event : monitor.take()) {
      if (event != ConnectionEvent::unreachable &&
          event != ConnectionEvent::broken) {
        return event;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return std::nullopt;
}

Finding check_token(const std::string& file, const std::string& address) {
  constexpr uint64_t kMaxBytes = 4096;
  const auto seen =
      greet_with(parse_join_token(read_file(file, kMaxBytes), file), address);
  const char* fresh = "'dtune token STUDY' there prints another";
  if (!seen) return problem("token", "the coordinator does not answer", "");
  if (*seen == ConnectionEvent::established) {
    return {"token", Health::good, "the token can be used", ""};
  }
  if (*seen == ConnectionEvent::denied) {
    return problem("token",
                   "the token was used, has expired, was revoked or is of an "
                   "earlier run",
                   fresh);
  }
  return problem(
      "token", "what listens there is not the coordinator that made the token",
      fresh);
}

}  // namespace

std::vector<Finding> examine_connection(const std::string& endpoint,
                                        const std::string& token_file) {
  std::vector<Finding> findings;
  const auto tcp = parse_tcp(endpoint);
  if (!tcp) {
    return {problem("address", endpoint + " is not of the form tcp://HOST:PORT",
                    "write it as 'dtune run --listen' prints it")};
  }
  try {
    const std::string host = resolve_host(tcp->host);
    findings.push_back({"address", Health::good,
                        fmt::format("{} is {}", tcp->host, host), ""});
    findings.push_back(check_port(host, tcp->port));
    if (findings.back().health == Health::problem) return findings;
    if (const PortRange own = allowed_ports(); own.first > 0) {
      findings.push_back(check_own_ports(endpoint, own));
    }
    if (!token_file.empty()) {
      const std::string address = TcpEndpoint{host, tcp->port}.text();
      findings.push_back(check_token(token_file, address));
    }
    std::optional<CurveClient> curve;
    try {
      const std::atomic<int> never{0};
      JoinOptions join;
      join.endpoint = endpoint;
      join.state = state_directory();
      curve = join_cluster(join, never);
      findings.push_back({"key", Health::good,
                          "this machine has joined that coordinator before",
                          ""});
    } catch (const Error&) {
      if (!token_file.empty()) return findings;
      if (!is_loopback(host)) {
        findings.push_back(
            problem("key", "this machine has not joined that coordinator",
                    "join with a token: 'dtune token STUDY' there prints one"));
        return findings;
      }
    }
    for (Finding& finding : check_answer(endpoint, curve)) {
      findings.push_back(std::move(finding));
    }
  } catch (const Error& error) {
    findings.push_back(problem("answer", error.what(), ""));
  }
  return findings;
}

}  // namespace dtune
