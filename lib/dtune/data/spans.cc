#include "dtune/data/spans.h"

#include <algorithm>

#include "dtune/base/error.h"

namespace dtune {

int64_t samples_of(std::span<const Span> spans) {
  int64_t sum = 0;
  for (const Span& span : spans) sum += span.size;
  return sum;
}

std::vector<Span> slice(std::span<const Span> spans, int64_t first,
                        int64_t size) {
  std::vector<Span> part;
  for (const Span& span : spans) {
    if (size == 0) break;
    const int64_t skipped = std::min(first, span.size);
    first -= skipped;
    const int64_t taken = std::min(size, span.size - skipped);
    size -= taken;
    if (taken > 0) part.push_back({span.first + skipped, taken});
  }
  DTUNE_CHECK(size == 0);
  return part;
}

std::vector<Span> merged(std::vector<Span> spans) {
  std::erase_if(spans, [](const Span& span) { return span.size == 0; });
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.first < b.first; });
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() &&
        result.back().first + result.back().size == span.first) {
      result.back().size += span.size;
    } else {
      result.push_back(span);
    }
  }
  return result;
}

std::vector<Span> without(const std::vector<Span>& from,
                          const std::vector<Span>& what) {
  std::vector<Span> rest;
  size_t next = 0;
  for (const Span& span : from) {
    int64_t at = span.first;
    const int64_t end = span.first + span.size;
    for (; next < what.size() && what[next].first < end; ++next) {
      const Span& hole = what[next];
      DTUNE_CHECK(hole.first >= at && hole.first + hole.size <= end);
      if (hole.first > at) rest.push_back({at, hole.first - at});
      at = hole.first + hole.size;
    }
    if (at < end) rest.push_back({at, end - at});
  }
  DTUNE_CHECK(next == what.size());
  return rest;
}

}  // namespace dtune
