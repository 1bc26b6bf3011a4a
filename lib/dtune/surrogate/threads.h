// A loop whose passes do not depend on each other, on a given number of
// threads.
#pragma once

#include <cstddef>
#include <functional>

namespace dtune {

// Calls body(i) for i in [0, count) from `threads` threads; blocks. What the
// call with the smallest i throws is thrown when all are done.
void on_threads(unsigned threads, size_t count,
                const std::function<void(size_t)>& body);

}  // namespace dtune
