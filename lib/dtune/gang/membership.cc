#include "dtune/gang/membership.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/members.h"

namespace dtune::gang {

using State = MemberState;

Membership::Membership(const ParallelSpec& parallel,
                       std::vector<std::string> nodes)
    : parallel_(parallel),
      nodes_(std::move(nodes)),
      members_(static_cast<size_t>(gang_members(parallel))) {
  nodes_.resize(members_.size());
}

std::vector<int> Membership::in_state(State state) const {
  std::vector<int> found;
  for (int m = 0; m < size(); ++m) {
    if (is(m, state)) found.push_back(m);
  }
  return found;
}

int Membership::count_present() const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(),
                    [](const Member& m) { return m.present(); }));
}

bool Membership::computes(int m) const {
  const bool servers =
      parallel_.mode == ParallelMode::data && parallel_.sync == SyncKind::ps;
  return !servers || m < parallel_.ranks;
}

bool Membership::any_computes(const std::vector<int>& members) const {
  return std::any_of(members.begin(), members.end(),
                     [this](int m) { return computes(m); });
}

bool Membership::needs_all() const {
  return parallel_.mode == ParallelMode::model ||
         parallel_.mode == ParallelMode::hybrid;
}

bool Membership::can_lose(int lost) const {
  if (needs_all() || !computes(lost)) return false;
  for (int m = 0; m < size(); ++m) {
    const bool coming = incarnation_ == 0 && at(m).awaited;
    if (m == lost || !computes(m)) continue;
    if (at(m).present() || coming) return true;
  }
  return false;
}

std::vector<int> Membership::missing() const {
  std::vector<int> missing;
  for (int i = 0; i < size(); ++i) {
    const Member& m = at(i);
    if (m.state == State::waiting || m.state == State::gone) continue;
    const bool needed = needs_all() || !computes(i);
    const bool comes = incarnation_ == 0 || m.state != State::absent;
    if (needed || (m.awaited && comes)) missing.push_back(i);
  }
  return missing;
}

int Membership::newest(const std::vector<int>& members,
                       bool before_step) const {
  int best = -1;
  const auto rank = [&](int m) {
    return std::tuple(before_step ? at(m).begin.step : 0, at(m).updates);
  };
  for (const int m : members) {
    if (at(m).forked) continue;
    if (best < 0 || rank(m) > rank(best)) best = m;
  }
  return best;
}

bool Membership::group_present() const {
  return std::all_of(group_.begin(), group_.end(), [this](int m) {
    return at(m).present() && !is(m, State::joined);
  });
}

std::string Membership::describe(int member, MonoTime now) const {
  const Member& m = at(member);
  const auto seconds = [](Duration d) {
    return fmt::format("{:.1f} s", to_seconds(d));
  };
  std::string text = fmt::format("rank {}", member);
  if (!node(member).empty()) text += " on " + node(member);
  if (m.heard == MonoTime{}) return text + " (has never joined)";
  return text + fmt::format(" (in '{}' for {}, last heard {} ago)", m.phase,
                            seconds(now - m.phase_since),
                            seconds(now - m.heard));
}

MemberStatus Membership::status(int member) const {
  const Member& m = at(member);
  MemberStatus status;
  status.node = node(member);
  status.present = m.present();
  status.phase = m.phase;
  status.late = m.late;
  status.gauges = m.gauges;
  return status;
}

bool Membership::join(int member, MonoTime now) {
  Member& m = edit(member);
  if (m.state != State::absent) return false;
  m.state = State::joined;
  whole_ = false;  // a process that has no groups yet
  m.awaited = incarnation_ == 0;
  note_phase(member, "joined", now);
  return true;
}

void Membership::note_phase(int m, const std::string& text, MonoTime since) {
  edit(m).phase = text;
  edit(m).phase_since = since;
}

void Membership::gauge(int m, const std::string& name, double value) {
  constexpr size_t kMostGauges = 64;
  std::map<std::string, double>& gauges = edit(m).gauges;
  if (gauges.size() < kMostGauges || gauges.contains(name)) {
    gauges[name] = value;
  }
}

void Membership::begin(int member, const Begin& begin) {
  Member& m = edit(member);
  m.begin = begin;
  m.updates = begin.updates;
  m.state = State::waiting;
  m.untrained = false;
}

void Membership::fail(int member, const Failed& failed) {
  Member& m = edit(member);
  m.failure = failed.what;
  m.updates = failed.updates;
  m.state = State::failed;
}

void Membership::fall_behind(int m, int64_t updates) {
  edit(m).updates = updates;
  edit(m).state = State::behind;
}

bool Membership::ready(int member, const Ready& ready, bool current) {
  Member& m = edit(member);
  m.updates = ready.updates;
  if (m.state == State::late || !current) {
    // While it computes, a member that gave it state would wait for it, and the
    // others for that one.
    m.state = ready.complete ? State::behind : State::late;
    return false;
  }
  m.state = State::ready;
  const bool caught_up = m.lagging || m.returning;
  m.lagging = m.returning = m.forked = false;
  return caught_up;
}

void Membership::leave_step(int m) {
  edit(m).state = State::joined;
  edit(m).awaited = true;
  whole_ = false;
}

void Membership::leave(int m) {
  edit(m).state = State::absent;
  edit(m).awaited = false;
}

void Membership::finish_step(int member) {
  Member& m = edit(member);
  m.awaited = m.state == State::ready;
  m.state = State::joined;
  m.lagging = m.returning = m.untrained = false;
}

void Membership::miss_step(int m) {
  edit(m).state = State::joined;
  edit(m).awaited = false;
}

void Membership::go_without(int member) {
  Member& m = edit(member);
  m.state = State::late;
  m.lagging = false;
  ++m.late;
  whole_ = false;
}

void Membership::give_up(int member) {
  go_without(member);
  edit(member).forked = true;
}

void Membership::quarantine(int member, int step, int64_t round) {
  Member& m = edit(member);
  m.state = State::waiting;
  m.begin.step = step;
  m.quarantine = round;
}

void Membership::fork_all_but(const std::vector<int>& members) {
  for (int m = 0; m < size(); ++m) {
    if (!contains(members, m)) edit(m).forked = true;
  }
}

void Membership::take_back(int m, bool lagging) {
  edit(m).lagging = lagging;
  edit(m).returning = true;
}

void Membership::regroup(const std::vector<int>& members, bool same) {
  if (!same) ++incarnation_;
  whole_ = !needs_all();  // pipelines are cut anew in each step
  group_ = members;
}

void Membership::enter_step(int m, int step, bool lagging) {
  edit(m).begin.step = step;
  edit(m).lagging = lagging;
  edit(m).untrained = false;
}

}  // namespace dtune::gang
