#include "dtune/comm/batches.h"

#include <utility>

namespace dtune {
namespace {

// Where the batch ends that begins at `begin`.
size_t end_of_batch(const Frames& waiting, size_t begin) {
  size_t bytes = waiting[begin].size();
  size_t end = begin + 1;
  while (end < waiting.size() && bytes + waiting[end].size() <= kBatchBytes) {
    bytes += waiting[end++].size();
  }
  return end;
}

}  // namespace

void send_batches(Frames& waiting, const std::string& peer,
                  const std::function<bool(Frames)>& send) {
  size_t begin = 0;
  while (begin < waiting.size()) {
    const size_t end = end_of_batch(waiting, begin);
    Frames batch;
    if (!peer.empty()) batch.push_back(peer);
    batch.insert(batch.end(), waiting.begin() + static_cast<ptrdiff_t>(begin),
                 waiting.begin() + static_cast<ptrdiff_t>(end));
    if (!send(std::move(batch))) break;
    begin = end;
  }
  waiting.erase(waiting.begin(),
                waiting.begin() + static_cast<ptrdiff_t>(begin));
}

}  // namespace dtune
