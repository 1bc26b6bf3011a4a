#include "dtune/study/node_health.h"

#include <algorithm>

namespace dtune {
namespace {

constexpr int kFailuresBeforeRest = 3;
constexpr Duration kFirstRest = std::chrono::seconds(10);
constexpr Duration kLongestRest = std::chrono::minutes(10);

}  // namespace

std::optional<Duration> NodeHealth::failed(const std::string& node,
                                           MonoTime now) {
  Record& record = nodes_[node];
  if (++record.failures < kFailuresBeforeRest) return std::nullopt;
  const int doublings = std::min(record.failures - kFailuresBeforeRest, 10);
  const Duration rest = std::min(kFirstRest * (1 << doublings), kLongestRest);
  record.until = now + rest;
  return rest;
}

bool NodeHealth::rests(const std::string& node, MonoTime now) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && now < found->second.until;
}

}  // namespace dtune
