#include "dtune/study/node_address.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

[[noreturn]] void refuse_address(const std::string& text) {
  throw Error(ErrorKind::config,
              fmt::format("'{}' is not a node (write local, ssh://host or "
                          "'ssh://user@host:22 slots=4')",
                          text));
}

// Of ":22"; 0 where there is none.
int port_of(std::string_view rest, const std::string& text) {
  constexpr int kMaxPort = 65535;
  if (rest.empty()) return 0;
  const auto port = parse_number<int>(rest.substr(1));
  if (port && *port >= 1 && *port <= kMaxPort) return *port;
  throw Error(ErrorKind::config,
              fmt::format("'{}' has no port after its ':' (a number from 1 to "
                          "{}, or leave it out)",
                          text, kMaxPort));
}

}  // namespace

SshAddress parse_ssh_address(const std::string& text) {
  constexpr std::string_view kScheme = "ssh://";
  if (!text.starts_with(kScheme)) refuse_address(text);
  std::string_view rest = std::string_view(text).substr(kScheme.size());
  SshAddress out;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    out.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (out.user.empty()) refuse_address(text);
  }
  if (rest.starts_with('[')) {  // IPv6
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) refuse_address(text);
    out.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest.front() != ':') refuse_address(text);
  } else {
    const size_t colon = std::min(rest.find(':'), rest.size());
    out.host = rest.substr(0, colon);
    rest.remove_prefix(colon);
  }
  const bool plain = is_plain(out.host, "-._:%") && is_plain(out.user, "-._");
  if (out.host.empty() || !plain || out.host.front() == '-' ||
      out.user.starts_with('-')) {
    refuse_address(text);
  }
  out.port = port_of(rest, text);
  return out;
}

}  // namespace dtune
