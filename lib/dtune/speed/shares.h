// How much of a batch each rank gets. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtune {

struct ShareLimits {
  int64_t least = 1;         // samples of a rank that takes part
  int64_t most = INT64_MAX;  // by memory
};

// LB-BSP (Chen et al. 2020, SoCC): b_i = B v_i / sum v, so that all finish at
// the same time; largest remainders get what rounding leaves. Ranks whose speed
// is not known (0, or anything that is no speed) count as the mean of the
// others. Sums to `batch` always; a batch smaller than the ranks' least leaves
// the slowest without. A faster rank never gets less than a slower one.
// Where limits cannot be kept, the sum goes first, then `most` (which, if the
// ranks cannot hold the batch, is exceeded evenly), then `least`.
// REQUIRES: batch >= 0, a speed or more.
std::vector<int64_t> split_batch(int64_t batch, std::span<const double> speeds,
                                 const ShareLimits& limits);

// Time of a round in which every rank computes its share: the largest b_i/v_i.
// Unknown speeds as above; 0 where none is known.
// REQUIRES: as many shares as speeds.
double round_seconds(std::span<const int64_t> shares,
                     std::span<const double> speeds);

// Whether to change from `now` to `next`: only if it saves at least `gain` (a
// share, 0.05) of the round, so that shares do not follow noise. Splits of
// different batches are compared by their time for a sample; a split of another
// number of ranks is always left. Both are judged by `speeds`.
bool worth_changing(std::span<const int64_t> now, std::span<const int64_t> next,
                    std::span<const double> speeds, double gain);

}  // namespace dtune
