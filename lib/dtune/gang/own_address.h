// Where others can reach this machine.
#pragma once

#include <string>

namespace dtune::gang {

// The numeric address of the interface that leads to `endpoint`'s host; the
// loopback's where the endpoint is no tcp. Nothing is sent. Throws
// Error(config) where the host cannot be resolved, Error(comm) where no route
// leads there.
std::string own_address(const std::string& endpoint);

}  // namespace dtune::gang
