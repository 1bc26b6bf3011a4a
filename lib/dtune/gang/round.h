// The round that is handed out: which member has which part of its work, and
// what has come back of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/gang/epoch_queue.h"
#include "dtune/gang/messages.h"

namespace dtune::gang {

struct RoundPlan {
  Work work;          // what all members' have in common, without the number
  QueuedBatch batch;  // train; evaluate: spans only
  std::vector<int> members;
  std::vector<int64_t> sizes;  // of the first members; the others have none
  int leader = -1;
  bool idle = false;          // no work: a regroup follows
  bool open = false;          // members may come and go in the middle of it
  bool shows_speeds = false;  // as they are usually
};

// Not thread-safe. REQUIRES everywhere: 0 <= member < members.
class Round {
 public:
  explicit Round(size_t members) : parts_(members) {}

  // The last round that a member got work in; and its report of it.
  struct Part {
    Work work;
    MonoTime handed{};
    MonoTime ready_at{};
    bool shows_speed = false;
    bool showed_speed = false;  // the work before
    bool unpaced = false;       // it has more to do than others
    Duration stood_still{0};    // since then, until it was heard again
    int64_t ready_for = 0;      // its last round
    MonoTime given_up{};        // what waits for it, last; MonoTime{}: not
    LossTotals totals;
    std::map<std::string, double> metrics;
  };
  const Part& part(int member) const {
    return parts_.at(static_cast<size_t>(member));
  }

  int64_t number() const { return number_; }
  MonoTime handed() const { return handed_; }
  bool idle() const { return plan_.idle; }
  bool open() const { return plan_.open; }
  int leader() const { return plan_.leader; }
  int64_t batch_size() const { return plan_.batch.size; }
  const std::vector<int>& members() const { return plan_.members; }
  const std::vector<int64_t>& sizes() const { return plan_.sizes; }
  // Gives state to others before it computes; -1: none.
  int source() const { return source_; }
  // That reduce together, or have a new group.
  const std::vector<int>& reduced_by() const { return reduced_by_; }
  bool settling() const { return settling_; }  // no deadline
  bool new_group() const {
    return new_group_;
  }  // reduced by others than before
  // When half of those that compute were ready; MonoTime{}: not yet.
  MonoTime half_ready() const { return half_ready_; }
  bool hanging_reported() const { return hanging_reported_; }
  // Of the members' parts.
  std::vector<Span> spans_of(const std::vector<int>& members) const;
  LossTotals totals_of(const std::vector<int>& members) const;

  // The next round: hands out its work. After an open round, another open one
  // is the same, with other members.
  void hand_out(RoundPlan plan, MonoTime now);
  // After hand_out, of a regroup: `settling` where it sends state to members.
  void begin_group(const std::vector<int>& members, int source, bool settling);
  // After hand_out, of a go that `participants` reduce.
  void reduce(const std::vector<int>& participants, int source);
  void unpace(int member) { edit(member).unpaced = true; }

  void note_spike(int member, Duration stood_still) {
    edit(member).stood_still += stood_still;
  }
  void note_given_up(int member, MonoTime now) { edit(member).given_up = now; }
  // What it has to do in this round does not count any more.
  void make_void(int member) { edit(member).work.spans.clear(); }

  // False where it was ready for this round already.
  bool note_ready(int member, const Ready& ready, MonoTime now);
  void set_half_ready(MonoTime now) { half_ready_ = now; }
  void set_hanging_reported() { hanging_reported_ = true; }

 private:
  Part& edit(int member) { return parts_.at(static_cast<size_t>(member)); }

  std::vector<Part> parts_;
  int64_t number_ = 0;
  RoundPlan plan_;
  MonoTime handed_{};
  MonoTime half_ready_{};
  int source_ = -1;
  bool settling_ = false;
  bool new_group_ = false;
  bool hanging_reported_ = false;
  std::vector<int> reduced_by_;  // that have a group of their own now
};

}  // namespace dtune::gang
