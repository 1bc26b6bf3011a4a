// What the ranks of trials did between the rounds that were recorded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/store/trial_store.h"

namespace dtune {

// Of one rank, since the round recorded before (the first: since the start).
struct RankCell {
  double speed = 0;  // samples per second of computing
  double share = 0;  // of the batch, in that round
  double wait = 0;   // of computing and waiting for slower ranks, 0..1
  int64_t late = 0;  // rounds that went on without it
  bool present = true;
};

// One attempt of a trial.
struct RankHistory {
  TrialId trial = 0;
  Attempt attempt = 0;
  std::vector<int64_t> rounds;               // recorded, rising
  std::vector<std::string> nodes;            // by rank
  std::vector<std::vector<RankCell>> cells;  // by rank, then as `rounds`
};

// REQUIRES: in the order of StudyRecords::ranks.
std::vector<RankHistory> rank_histories(const std::vector<RankRound>& ranks);

// A rank whose median speed is below 70% of that of the median rank.
struct SlowRank {
  TrialId trial = 0;
  int rank = 0;
  std::string node;
  double part = 1;  // of the median rank's speed
};

// The slowest of all; empty where none is so slow.
std::optional<SlowRank> slowest_rank(const std::vector<RankHistory>& histories);

}  // namespace dtune
