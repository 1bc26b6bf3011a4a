#include "dtune/cluster/rank_log.h"

namespace dtune {
namespace {

constexpr int64_t kGrowth = 4;  // a quarter

RankRound round_of(const Trial& trial, const GangStatus& gang, size_t rank,
                   int64_t wall_ms) {
  const MemberStatus& member = gang.members[rank];
  return {.trial = trial.id,
          .attempt = trial.attempt,
          .round = gang.round,
          .rank = static_cast<int>(rank),
          .node = member.node,
          .wall_ms = wall_ms,
          .samples = member.times.samples,
          .compute_seconds = member.times.compute(),
          .wait_seconds = member.times.waiting,
          .late = member.late,
          .share = member.share,
          .present = member.present};
}

}  // namespace

std::vector<RankRound> RankLog::sample(const Trial& trial,
                                       const GangStatus& gang,
                                       int64_t wall_ms) {
  int64_t& next = next_[{trial.id, trial.attempt}];
  if (gang.round < 1 || gang.round < next) return {};
  next = gang.round + 1 + gang.round / kGrowth;
  std::vector<RankRound> ranks;
  for (size_t rank = 0; rank < gang.members.size(); ++rank) {
    ranks.push_back(round_of(trial, gang, rank, wall_ms));
  }
  return ranks;
}

}  // namespace dtune
