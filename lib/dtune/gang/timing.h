// How long a gang's rounds take: shares of batches, deadlines, and whether a
// member costs more than it brings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/gang/balancer.h"
#include "dtune/gang/decisions.h"
#include "dtune/gang/messages.h"
#include "dtune/gang/pace.h"
#include "dtune/gang/round.h"
#include "dtune/gang/spikes.h"

namespace dtune::gang {

// Not thread-safe. REQUIRES everywhere: 0 <= member < members.
class Timing {
 public:
  Timing(const ParallelSpec& parallel, size_t members);

  // --- What was measured.

  // A new process: what was known of its speed is void.
  void forget(int member) { balancer_.forget(member); }
  // Once a round, of the round before; `shows_speed`: as it is usually.
  void observe(int member, const RoundTimes& times, bool shows_speed);
  // From handing out to `ready`, in a round that all have the same to do in.
  void add_pace(Duration taken) { pace_.add(taken); }
  // What it needed for the work that went on without it is the best that is
  // known of its speed until its own figures come.
  void suspect(int member, int64_t samples, Duration taken);
  void end_round(int64_t samples, MonoTime now);
  // A member has stood still for so long.
  void add_spike(Duration length, MonoTime end) { spikes_.add(length, end); }

  // --- What follows.

  // Of the data plane, for one operation: a reduction whose participant has
  // stopped is given up after it. kRounds median rounds, since a member that is
  // ready has little left to do; at least `least`, for what has nothing to do
  // with rounds (processes that are not scheduled, connections). Before the
  // pace is known, and without mitigation, long.
  Duration patience(Duration least = kLeastPatience) const;
  static constexpr int kRounds = 4;
  static constexpr Duration kLeastPatience = std::chrono::seconds(1);
  // Where groups are made or state is sent.
  static constexpr Duration kGroupPatience = std::chrono::seconds(5);
  Duration round_time(double quantile) const {
    return pace_.quantile(quantile);
  }
  // From when a round of training has taken too long, since it was handed out.
  std::optional<Duration> deadline(const Round& round) const;
  // From when on a round of training goes on without a rank that stands still.
  bool worth_going_on(const Standstill& standstill) const {
    return pace_.known() && spikes_.worth_going_on(standstill);
  }
  // Whether what `waiting` ranks do together with one that has been silent for
  // so long is given up, and the round trained again. False before the pace is
  // known.
  bool worth_giving_up(size_t waiting, Duration silent) const {
    return pace_.known() &&
           spikes_.worth_giving_up(waiting, silent, pace_.quantile(0.5));
  }
  bool knows_pace() const { return pace_.known(); }
  // Whether a rank that has only its first gradients counts as ready
  // (Ready::complete). Where spikes take more of the time than this saves, no:
  // one after that would break the reduction.
  bool commits_early(MonoTime now) const { return spikes_.share(now) < kOften; }
  static constexpr double kOften = 0.1;
  // The one that the others are least likely to wait for.
  int fastest(const std::vector<int>& members) const;
  // Sizes for `members` by predicted speeds; reports those that differ much
  // from what was reported last.
  std::vector<int64_t> split(int64_t batch, const std::vector<int>& members,
                             Decisions& decisions);
  std::vector<int64_t> split_once(int64_t batch,
                                  const std::vector<int>& members) const {
    return balancer_.split_once(batch, members);
  }
  struct Verdict {
    int member = 0;
    std::string costs;  // "costs more than it brings: ..."
  };
  std::optional<Verdict> judge(int64_t batch,
                               const std::vector<int>& participants);

  double samples_per_second() const;  // accepted, of all members
  void describe(int member, MemberStatus& status) const;

 private:
  struct Sums {
    RoundTimes times;
    double wait_share = 0;
    double overhead = -1;  // seconds of a round: reduction and update
  };
  struct Accepted {
    MonoTime when;
    int64_t samples;
  };

  bool automatic_;
  Balancer balancer_;
  Pace pace_;
  Spikes spikes_;
  double ready_share_ = 1;  // of a round's compute time, before `ready`
  std::vector<Sums> sums_;
  std::vector<double> shares_;           // of the batch, by member
  std::vector<double> shares_reported_;  // likewise, by the last event
  std::vector<Accepted> accepted_;       // recently
};

}  // namespace dtune::gang
