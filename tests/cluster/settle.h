// Commands of launchers with clocks that are set by hand.
#pragma once

#include "eventually.h"

#include "dtune/cluster/elastic_launcher.h"

namespace dtune {

// Calls ensure() until no command runs and none begins: what the launcher does
// at this time of its clock is done. Time that a test lets pass while a command
// runs is taken for the command's.
inline bool settle(ElasticLauncher& launcher) {
  return eventually([&] {
    const bool was_busy = launcher.busy();
    launcher.ensure();
    return !was_busy && !launcher.busy();
  });
}

}  // namespace dtune
