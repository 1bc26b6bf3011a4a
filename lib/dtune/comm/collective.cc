#include "dtune/comm/collective.h"

namespace dtune {

std::string rank_names(const std::vector<int>& ranks) {
  std::string names = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) names += i + 1 == ranks.size() ? " and " : ", ";
    names += std::to_string(ranks[i]);
  }
  return names;
}

void Collective::queue_all_reduce(std::span<float> /*data*/, void* /*stream*/,
                                  Duration /*timeout*/) {
  DTUNE_CHECK(queues());
}

void Collective::settle(Duration /*timeout*/) {}

}  // namespace dtune
