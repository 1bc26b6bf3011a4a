// A loop whose passes do not depend on each other, on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace dtune {

// Calls body(i) for i in [0, count) from as many threads as there are cores,
// in about this order; blocks until all are done. If calls throw, the rest is
// left out and what the call with the smallest i threw is thrown, so that the
// error does not depend on the timing.
void parallel_for(size_t count, const std::function<void(size_t)>& body);

}  // namespace dtune
