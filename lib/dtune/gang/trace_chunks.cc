#include "dtune/gang/trace_chunks.h"

#include <algorithm>
#include <utility>

namespace dtune::gang {

std::vector<TraceChunk> to_chunks(std::vector<TraceEvent> events,
                                  int64_t offset_ns) {
  constexpr size_t kLongestName = 200;
  std::vector<TraceChunk> chunks;
  for (TraceEvent& e : events) {
    if (chunks.empty() || chunks.back().events.size() >= kTraceEventsAMessage) {
      chunks.push_back({offset_ns, {}});
    }
    e.name.resize(std::min(e.name.size(), kLongestName));
    chunks.back().events.push_back({e.kind, e.lane, std::move(e.name),
                                    e.begin_ns, e.duration_ns, e.value});
  }
  return chunks;
}

}  // namespace dtune::gang
