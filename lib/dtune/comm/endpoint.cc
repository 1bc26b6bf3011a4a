#include "dtune/comm/endpoint.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTcp = "tcp://";

[[noreturn]] void wrong(const std::string& endpoint) {
  throw Error(ErrorKind::config,
              fmt::format("{}: is not an address (write tcp://host:port, e.g. "
                          "tcp://10.0.0.1:5555)",
                          endpoint));
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, size, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "";
  }
  return text.data();
}

// The IPv4 address of an interface ("eth0"); "" where there is none.
std::string address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list,
                                                               &freeifaddrs);
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || name != it->ifa_name) continue;
    if (it->ifa_addr->sa_family != AF_INET) continue;
    return numeric(it->ifa_addr, sizeof(sockaddr_in));
  }
  return "";
}

// The inode of the socket that listens on `port`; 0: none.
uint64_t listening_inode(const char* table, int port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    // sl local remote state queues timer retransmits uid timeout inode
    std::istringstream words(line);
    std::string sl, local, remote, state, skip;
    uint64_t inode = 0;
    words >> sl >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) words >> skip;
    words >> inode;
    const size_t colon = local.rfind(':');
    if (!words || state != "0A" || colon == std::string::npos) continue;
    if (std::stoi(local.substr(colon + 1), nullptr, 16) == port) return inode;
  }
  return 0;
}

bool holds_inode(const fs::path& process, const std::string& wanted) {
  std::error_code error;
  for (fs::directory_iterator it(process / "fd", error), end;
       !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (fs::read_symlink(it->path(), ignored) == wanted) return true;
  }
  return false;
}

[[noreturn]] void refuse(const std::string& endpoint, const char* why) {
  throw Error(ErrorKind::config, fmt::format("{}: {}", endpoint, why));
}

[[noreturn]] void refuse_taken(const std::string& endpoint) {
  const auto tcp = parse_tcp(endpoint);
  const std::string holder = tcp ? holder_of_port(tcp->port) : "";
  throw Error(ErrorKind::temporary,
              fmt::format("{}: already in use{} (is another dtune running? "
                          "choose another port, or 0 for any)",
                          endpoint, holder.empty() ? "" : " by " + holder));
}

}  // namespace

std::string TcpEndpoint::text() const {
  const bool six = host.find(':') != std::string::npos;
  return fmt::format("tcp://{}{}{}:{}", six ? "[" : "", host, six ? "]" : "",
                     port);
}

std::optional<TcpEndpoint> parse_tcp(const std::string& endpoint) {
  if (!endpoint.starts_with(kTcp)) return std::nullopt;
  const std::string rest = endpoint.substr(kTcp.size());
  const size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0) wrong(endpoint);
  TcpEndpoint out;
  out.host = rest.substr(0, colon);
  if (out.host.front() == '[') {
    if (out.host.back() != ']') wrong(endpoint);
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    wrong(endpoint);
  }
  const std::string port = rest.substr(colon + 1);
  if (port == "*") return out;
  out.port = parse_number<int>(port).value_or(-1);
  if (out.host.empty() || out.port < 0 || out.port > 65535) wrong(endpoint);
  return out;
}

std::string resolve_host(const std::string& host) {
  if (std::string own = address_of_interface(host); !own.empty()) {
    return own;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (rc != 0) {
    // A name server may not know a machine that has just come.
    const auto kind =
        rc == EAI_AGAIN ? ErrorKind::temporary : ErrorKind::config;
    throw Error(kind,
                fmt::format("{}: unknown host: {} (use its numeric address)",
                            host, gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list,
                                                                 &freeaddrinfo);
  std::string best;
  for (const addrinfo* it = list; it != nullptr; it = it->ai_next) {
    const std::string address = numeric(it->ai_addr, it->ai_addrlen);
    if (address.empty()) continue;
    if (best.empty() || (is_loopback(best) && !is_loopback(address))) {
      best = address;
    }
  }
  return best;
}

bool is_loopback(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) {
    return (ntohl(four.s_addr) >> 24) == 127;
  }
  in6_addr six{};
  if (inet_pton(AF_INET6, address.c_str(), &six) != 1) return false;
  if (IN6_IS_ADDR_LOOPBACK(&six)) return true;
  return IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127;
}

std::vector<std::string> interface_addresses() {
  std::vector<std::string> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list,
                                                               &freeifaddrs);
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != AF_INET) continue;
    const std::string address = numeric(it->ifa_addr, sizeof(sockaddr_in));
    if (address.empty() || is_loopback(address)) continue;
    out.push_back(fmt::format("{} {}", it->ifa_name, address));
  }
  return out;
}

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "lo" || host == "ip6-localhost" ||
         is_loopback(host);
}

TcpEndpoint checked_remote(const std::string& endpoint, bool has_keys) {
  auto tcp = parse_tcp(endpoint);
  if (!tcp) refuse(endpoint, "is not a tcp address (tcp://10.0.0.1:5555)");
  if (tcp->host == "*" || tcp->host == "0.0.0.0" || tcp->host == "::") {
    refuse(endpoint,
           "listens on every network of this machine (name one address or "
           "interface, e.g. tcp://10.0.0.1:5555 or tcp://eth0:5555)");
  }
  const std::string name = tcp->host;
  tcp->host = resolve_host(name);
  if (is_loopback(tcp->host) && !names_loopback(name)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: '{}' is the loopback address {} here, where "
                            "no other machine could join (a line in "
                            "/etc/hosts? give the numeric address)",
                            endpoint, name, tcp->host));
  }
  if (!has_keys && !is_loopback(tcp->host)) {
    refuse(endpoint,
           "needs keys, because any machine could join otherwise (make "
           "them with: dtune keygen)");
  }
  return *tcp;
}

void cannot_listen(const std::string& endpoint, int code) {
  if (code == EADDRINUSE) refuse_taken(endpoint);
  if (code == ENODEV || code == EADDRNOTAVAIL) {
    refuse(endpoint, "is not an address of this machine (see: ip address)");
  }
  throw Error(ErrorKind::comm, fmt::format("cannot listen on '{}': {}",
                                           endpoint, errno_text(code)));
}

bool is_local_endpoint(const std::string& endpoint) {
  const auto tcp = parse_tcp(endpoint);
  if (!tcp) return endpoint.starts_with("ipc:") || endpoint.starts_with("inp");
  return tcp->host != "*" && is_loopback(resolve_host(tcp->host));
}

std::string holder_of_port(int port) {
  uint64_t inode = listening_inode("/proc/net/tcp", port);
  if (inode == 0) inode = listening_inode("/proc/net/tcp6", port);
  if (inode == 0) return "";
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    const std::string pid = it->path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_inode(it->path(), wanted)) continue;
    std::string name;
    std::getline(std::ifstream(it->path() / "comm"), name);
    return fmt::format("process {} ({})", pid, name);
  }
  return "";
}

}  // namespace dtune
