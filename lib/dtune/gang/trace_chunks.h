// Trace events as they travel.
#pragma once

#include <vector>

#include "dtune/gang/protocol.h"

namespace dtune::gang {

// Messages well under the limit, whatever the events are called.
std::vector<TraceChunk> to_chunks(std::vector<TraceEvent> events,
                                  int64_t offset_ns);

}  // namespace dtune::gang
