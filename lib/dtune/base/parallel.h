// A loop whose passes do not depend on each other, on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace dtune {

// At least 1.
size_t count_cores();

// Calls body(i) for i in [0, count) from `threads` threads, this one included,
// in about this order; blocks until all are done. If calls throw, the rest is
// left out and what the call with the smallest i threw is thrown, so that the
// error does not depend on the timing.
void parallel_for(size_t count, const std::function<void(size_t)>& body,
                  size_t threads = count_cores());

}  // namespace dtune
