// Which rounds of gangs are recorded, and what of their ranks.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "dtune/gang/server.h"
#include "dtune/store/trial_store.h"

namespace dtune {

// The first round that is seen of an attempt, then one each time that rounds
// have grown by a quarter: 60 of a million. Not thread-safe.
class RankLog {
 public:
  // What is to be recorded of a gang now; empty where nothing is due. Call it
  // as often as the status is at hand.
  std::vector<RankRound> sample(const Trial& trial, const GangStatus& gang,
                                int64_t wall_ms);

 private:
  std::map<std::pair<TrialId, Attempt>, int64_t> next_;  // round
};

}  // namespace dtune
