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

// "group 'name'", as errors call it.
std::string group_text(const std::string& name);

// Every rank connected to every other over TCP. Costs 1 set and size - 1 gets
// of the store for each rank, and size - 1 connections. Throws as
// make_gloo_group().
std::shared_ptr<gloo::Context> connect_mesh(const GroupOptions& options,
                                            RendezvousStore& store);

// Closes all connections; every operation under way throws.
void break_mesh(gloo::Context& mesh);

}  // namespace dtune
