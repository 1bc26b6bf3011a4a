// TCP ports that this machine's fire wall lets in.
#pragma once

#include <string>

namespace dtune {

// Both ends included; 0 and 0: any port that the system chooses.
struct PortRange {
  int first = 0;
  int last = 0;
};

// "5600-5699". Throws Error(config).
PortRange parse_port_range(const std::string& text);

// Where a process listens if nothing says a port: the range of the environment
// variable DTUNE_PORTS, which `--ports` sets for a process and all that it
// starts; else any. Throws as parse_port_range.
PortRange allowed_ports();

// Makes the range, if it is not "", allowed_ports() of this process and of all
// that it starts. Throws as parse_port_range. Before any thread is started.
void use_ports(const std::string& text);

}  // namespace dtune
