#include "dtune/base/port_range.h"

#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {

PortRange parse_port_range(const std::string& text) {
  PortRange range;
  std::istringstream words(text);
  char dash = 0;
  const bool read = bool(words >> range.first >> dash >> range.last);
  constexpr int kLastPort = 65535;
  if (!read || dash != '-' || words.peek() != EOF || range.first < 1 ||
      range.last < range.first || range.last > kLastPort) {
    throw Error(ErrorKind::config,
                fmt::format("--ports: '{}' is not a range of ports (write "
                            "5600-5699)",
                            text));
  }
  return range;
}

PortRange allowed_ports() {
  const char* text = std::getenv("DTUNE_PORTS");
  return text == nullptr || *text == 0 ? PortRange{} : parse_port_range(text);
}

void use_ports(const std::string& text) {
  if (text.empty()) return;
  parse_port_range(text);
  setenv("DTUNE_PORTS", text.c_str(), 1);  // NOLINT: no other thread runs yet
}

}  // namespace dtune
