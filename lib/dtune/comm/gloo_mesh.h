// The connections of a Gloo group, and what it takes to give them up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtune/comm/collective.h"

namespace gloo {  // in .cc files only
class Context;
}

namespace dtune {

// Two connections between every two ranks.
struct Meshes {
  std::shared_ptr<gloo::Context> data;
  // What must not wait behind data: Gloo stops reading a connection whose next
  // bytes are for an operation that has thrown.
  std::shared_ptr<gloo::Context> control;
};

// Between ranks that know each other (rank_sockets.h); costs a thread.
// Throws as make_gloo_group().
Meshes connect_meshes(const GroupOptions& options, RendezvousStore& store);

// Closes all connections; every operation under way throws.
void break_mesh(gloo::Context& mesh);

}  // namespace dtune
