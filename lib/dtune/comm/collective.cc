#include "dtune/comm/collective.h"

#include <utility>

#include <fmt/core.h>

namespace dtune {
namespace {

std::string text(const std::string& group, const std::vector<int>& ranks,
                 const std::string& what) {
  if (ranks.empty()) return fmt::format("{}: {}", group, what);
  std::string names = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) names += i + 1 == ranks.size() ? " and " : ", ";
    names += std::to_string(ranks[i]);
  }
  return fmt::format("{}: {} {}", group, names, what);
}

}  // namespace

RanksMissing::RanksMissing(const std::string& group, std::vector<int> ranks,
                           const std::string& what)
    : Error(ErrorKind::comm, text(group, ranks, what)),
      ranks_(std::move(ranks)) {}

}  // namespace dtune
