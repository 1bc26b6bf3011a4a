// Test cases that cannot run on this machine.
#pragma once

#include <string>

namespace dtune {

// Prints the reason. The caller returns from its case right after:
//
//   if (!network.ready()) return skip("network namespaces need root");
//
// A program all of whose cases were skipped ends with kSkippedExit, which ctest
// shows as "Skipped" (dtune_test in third_party/cmake/dtune_targets.cmake); a
// case that failed as well is never shown as skipped. Thread-safe.
void skip(const std::string& reason);

inline constexpr int kSkippedExit = 77;

}  // namespace dtune
