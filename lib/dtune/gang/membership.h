// The members of a gang, the state of each, and which share its data plane.
// Records what the controller has heard and decided; sends nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/gang/messages.h"
#include "dtune/gang/server.h"
#include "dtune/study/parallel_spec.h"

namespace dtune::gang {

// The transitions are in controller.h. Not thread-safe.
enum class MemberState {
  absent,
  joined,
  waiting,
  working,
  ready,
  late,
  behind,
  failed,
  gone
};

struct Member {
  MemberState state = MemberState::absent;
  bool awaited = true;     // before a step begins
  bool forked = false;     // its updates may be none of this gang's
  bool untrained = false;  // it was late for what the others hold now
  bool lagging = false;    // gets its state from a source
  bool returning = false;  // is being taken in again
  Begin begin;
  int64_t updates = 0;  // applied
  std::string failure;
  int64_t quarantine = 0;  // not taken in before this round
  // For status and messages.
  MonoTime heard{};
  std::string phase;
  MonoTime phase_since{};
  int64_t late = 0;  // rounds that went on without it
  std::map<std::string, double> gauges;

  bool present() const {
    return state != MemberState::absent && state != MemberState::gone;
  }
  bool in_round() const {
    return state == MemberState::working || state == MemberState::ready;
  }
  // Present, but no part of step `number`: it has left it, or comes from a
  // checkpoint of a later one.
  bool outside_step(int number) const {
    return state == MemberState::joined ||
           (state == MemberState::waiting && begin.step > number);
  }
};

class Membership {
 public:
  Membership(const ParallelSpec& parallel, std::vector<std::string> nodes);

  // --- Queries. REQUIRES: 0 <= m < size().

  int size() const { return static_cast<int>(members_.size()); }
  const Member& at(int m) const { return members_.at(static_cast<size_t>(m)); }
  bool is(int m, MemberState state) const { return at(m).state == state; }
  const std::string& node(int m) const {
    return nodes_.at(static_cast<size_t>(m));
  }
  std::vector<int> in_state(MemberState state) const;
  int count_present() const;
  // Parameter servers hold weights only.
  bool computes(int m) const;
  bool any_computes(const std::vector<int>& members) const;
  // No member can be missing: each holds a part of the network.
  bool needs_all() const;
  // Whether the gang can go on where `lost` is.
  bool can_lose(int lost) const;
  // Members that a step has to wait for before it begins.
  std::vector<int> missing() const;
  // The one with most updates (before a step: of the latest step) of those
  // whose history is the gang's; -1: none.
  int newest(const std::vector<int>& members, bool before_step) const;
  // "rank 2 on gpu1 (in 'backward' for 3.1 s, last heard 0.2 s ago)"
  std::string describe(int m, MonoTime now) const;
  MemberStatus status(int m) const;

  // Of the data plane.
  int incarnation() const { return incarnation_; }
  const std::vector<int>& group() const { return group_; }
  bool group_is(const std::vector<int>& members) const {
    return whole_ && members == group_;
  }
  // Whether all of the group are in the step still.
  bool group_present() const;

  // --- Messages of a member.

  bool join(int m, MonoTime now);  // false: it is here already
  void hear(int m, MonoTime now) { edit(m).heard = now; }
  void note_phase(int m, const std::string& text, MonoTime since);
  void gauge(int m, const std::string& name, double value);
  void begin(int m, const Begin& begin);
  void fail(int m, const Failed& failed);
  void fall_behind(int m, int64_t updates);
  // `current`: its updates are the gang's. True where it has caught up now.
  bool ready(int m, const Ready& ready, bool current);
  void leave_step(int m);
  void leave(int m);

  // --- What was decided.

  void work(int m) { edit(m).state = MemberState::working; }
  // The end of step `number` is its own, too: back to the start.
  void finish_step(int m);
  // It has missed the end of a step that the others have done.
  void miss_step(int m);
  void go_without(int m);
  // Of a failure: it is not known what it has applied.
  void give_up(int m);
  void note_untrained(int m) { edit(m).untrained = true; }
  void evict(int m) { edit(m).state = MemberState::gone; }
  // Left out until `round`, as if it came for `step` then.
  void quarantine(int m, int step, int64_t round);
  void fork_all_but(const std::vector<int>& members);
  // Of a member that was late or failed: `lagging`: it gets state.
  void take_back(int m, bool lagging);
  // A data plane of `members` for `step`; `targets` get state first. The
  // incarnation is new but where `same`.
  void regroup(const std::vector<int>& members, bool same);
  void enter_step(int m, int step, bool lagging);

 private:
  Member& edit(int m) { return members_.at(static_cast<size_t>(m)); }

  ParallelSpec parallel_;
  std::vector<std::string> nodes_;
  std::vector<Member> members_;
  std::vector<int> group_;  // of the incarnation: the whole data plane
  bool whole_ = false;      // of its members, all have their groups still
  int incarnation_ = 0;
};

}  // namespace dtune::gang
