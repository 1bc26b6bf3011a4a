#include "dtune/pipeline/partition.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Times of stages, by sums over the first units.
class StageTimes {
 public:
  StageTimes(std::span<const PipelineUnit> units,
             std::span<const StageHost> hosts)
      : units_(units), hosts_(hosts), sums_{0} {
    for (const PipelineUnit& unit : units) {
      sums_.push_back(sums_.back() + unit.seconds);
    }
  }

  // Of units [first, end) as stage `stage`.
  double operator()(size_t stage, size_t first, size_t end) const {
    const StageHost& host = hosts_[stage];
    const double computing = (sums_[end] - sums_[first]) / host.speed;
    const bool receives = stage > 0 && host.bandwidth > 0;
    return std::max(
        computing, receives ? units_[first].input_bytes / host.bandwidth : 0.0);
  }

 private:
  std::span<const PipelineUnit> units_;
  std::span<const StageHost> hosts_;
  std::vector<double> sums_;
};

// The best cut of the first `end` units into the stages up to a given one.
struct Best {
  double slowest = kNever;
  size_t first = 0;  // unit that the last of the stages begins with
};

Best best_cut(const StageTimes& times, std::span<const Best> before,
              size_t stage, size_t end) {
  Best best;
  for (size_t first = stage; first < end; ++first) {
    const double slowest =
        std::max(before[first].slowest, times(stage, first, end));
    if (slowest < best.slowest) best = {slowest, first};
  }
  return best;
}

void check(std::span<const PipelineUnit> units,
           std::span<const StageHost> hosts) {
  DTUNE_CHECK(!hosts.empty());
  for (const StageHost& host : hosts) DTUNE_CHECK(host.speed > 0);
  if (units.size() >= hosts.size()) return;
  throw Error(
      ErrorKind::config,
      fmt::format("parallel: {} stages are more than the model's {} layers "
                  "that can be parted (use at most {} stages, or a deeper "
                  "model; a residual block counts as one layer)",
                  hosts.size(), units.size(), units.size()));
}

}  // namespace

Partition cut_into_stages(std::span<const PipelineUnit> units,
                          std::span<const StageHost> hosts) {
  check(units, hosts);
  const StageTimes times(units, hosts);
  const size_t count = units.size();
  std::vector<std::vector<Best>> table(hosts.size(),
                                       std::vector<Best>(count + 1));
  for (size_t end = 1; end <= count; ++end) {
    table[0][end] = {times(0, 0, end), 0};
  }
  for (size_t stage = 1; stage < hosts.size(); ++stage) {
    for (size_t end = stage + 1; end <= count; ++end) {
      table[stage][end] = best_cut(times, table[stage - 1], stage, end);
    }
  }
  Partition partition;
  partition.first.resize(hosts.size());
  partition.seconds.resize(hosts.size());
  partition.slowest = table.back()[count].slowest;
  size_t end = count;
  for (size_t stage = hosts.size(); stage-- > 0;) {
    const size_t first = table[stage][end].first;
    partition.first[stage] = first;
    partition.seconds[stage] = times(stage, first, end);
    end = first;
  }
  return partition;
}

}  // namespace dtune
