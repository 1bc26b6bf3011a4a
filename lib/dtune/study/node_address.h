// Addresses of nodes, as a recipe's `nodes:` has them.
#pragma once

#include <string>

namespace dtune {

// "ssh://user@host:22"; user and port may be left out.
struct SshAddress {
  std::string user;
  std::string host;  // a name, a Host of ~/.ssh/config, or a numeric address
  int port = 0;      // 0: ssh's own choice
};

// Throws Error(config) where it is no such address: also for what ssh would
// take for an option.
SshAddress parse_ssh_address(const std::string& text);

}  // namespace dtune
