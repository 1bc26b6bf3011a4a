// How much each member of a gang gets, and whether it is worth keeping.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dtune/speed/speed_predictor.h"
#include "dtune/study/parallel_spec.h"

namespace dtune::gang {

// Predicts members' speeds and shares batches out by them. Equal shares where
// nothing is known, or the recipe has `stragglers: off`. Not thread-safe.
class Balancer {
 public:
  Balancer(const ParallelSpec& parallel, size_t members);

  // Samples a second of compute time, of a round of training.
  void observe(int member, double samples_per_second);
  // A late member cannot be faster than this: until more is known, it is not
  // taken to be. Spares a second miss while its own figures are on their way.
  void suspect(int member, double samples_per_second);
  // A new process: what was known is void.
  void forget(int member);

  double predicted(int member) const;  // samples a second; 0: unknown
  double measured(int member) const;   // the last observation

  // Sizes for `members`; sum to `batch`. Follows the predictions only where
  // that is worth it (shares.h).
  std::vector<int64_t> split(int64_t batch, const std::vector<int>& members);
  // By the predictions alone: work that is not repeated (evaluation).
  std::vector<int64_t> split_once(int64_t batch,
                                  const std::vector<int>& members) const;
  // Whether the last split() changed the shares.
  bool changed() const { return changed_; }

  // Time that the slowest of `members` needs for its size; 0: unknown.
  double expected_seconds(const std::vector<int>& members,
                          const std::vector<int64_t>& sizes) const;

  // Called once a round: the member without which the others have been
  // predicted to be faster, by throughput with communication, for kPersistent
  // rounds on end. `overhead`: seconds of a round that are not compute.
  std::optional<int> judge(int64_t batch, const std::vector<int>& members,
                           double overhead);

  static constexpr double kGain = 0.05;
  // Of the throughput without a member: with it, less is not worth its company.
  // Below 1, since overheads are noisy where ranks share cores.
  static constexpr double kWorth = 0.95;
  static constexpr int kPersistent = 40;
  // No share is smaller than this part of an equal one: what a rank does for a
  // sample or two shows nothing of its speed, and it would never come back.
  static constexpr int64_t kLeastPart = 8;

 private:
  struct Rank {
    std::unique_ptr<SpeedPredictor> predictor;
    double predicted = 0;
    double measured = 0;
    double suspected = 0;  // 0: not
    double in_force = 0;   // that shares follow
  };
  Rank& rank(int member) { return ranks_.at(static_cast<size_t>(member)); }
  const Rank& rank(int member) const {
    return ranks_.at(static_cast<size_t>(member));
  }
  std::vector<double> predictions(const std::vector<int>& members) const;

  bool automatic_;
  PredictorKind kind_;
  std::vector<Rank> ranks_;
  bool changed_ = false;
  int accused_ = -1;
  int rounds_accused_ = 0;
};

}  // namespace dtune::gang
