#include "dtune/gang/master.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/members.h"

namespace dtune::gang {

GangMaster::GangMaster(GangOptions options, MonoTime now)
    : options_(std::move(options)),
      members_(static_cast<size_t>(gang_members(options_.parallel))),
      balancer_(options_.parallel, members_.size()),
      gathering_since_(now),
      ticked_(now) {
  options_.nodes.resize(members_.size());
  shares_.resize(members_.size());
}

std::vector<int> GangMaster::in_state(State state) const {
  std::vector<int> found;
  for (int m = 0; m < members(); ++m) {
    if (at(m).state == state) found.push_back(m);
  }
  return found;
}

int GangMaster::count_present() const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(), &GangMaster::present));
}

bool GangMaster::automatic() const {
  return options_.parallel.stragglers == StragglerPolicy::automatic;
}

bool GangMaster::own_training() const {
  return stage_ == Stage::running && step_.begin.own_training &&
         step_.phase == Phase::train;
}

bool GangMaster::past_own_training() const {
  return stage_ == Stage::running && step_.begin.own_training &&
         step_.phase != Phase::train;
}

// Nobody is left who could judge what was trained.
bool GangMaster::result_is_lost() const {
  if (!past_own_training()) return false;
  for (int i = 0; i < members(); ++i) {
    const Member& m = at(i);
    const bool in_step = in_round(m) || m.state == State::late ||
                         m.state == State::behind || m.state == State::failed;
    if (computes(i) && in_step) return false;
  }
  return true;
}

// Parameter servers hold weights only.
bool GangMaster::computes(int member) const {
  const ParallelSpec& parallel = options_.parallel;
  const bool servers =
      parallel.mode == ParallelMode::data && parallel.sync == SyncKind::ps;
  return !servers || member < parallel.ranks;
}

bool GangMaster::needs_all() const {
  return options_.parallel.mode == ParallelMode::model ||
         options_.parallel.mode == ParallelMode::hybrid;
}

void GangMaster::send(int member, Order order) {
  orders_.push_back({member, std::move(order)});
}

void GangMaster::event(GangEvent::Kind kind, int member,
                       const std::string& text) {
  events_.push_back({options_.gang, kind, member, text});
}

void GangMaster::joined(int member, MonoTime now) {
  Member& m = at(member);
  m.heard = now;
  if (closed()) return send(member, Closed{why_closed_});
  if (m.state != State::absent) return;
  m.state = State::joined;
  whole_ = false;  // a process that has no groups yet
  m.awaited = incarnation_ == 0;
  m.phase = "joined";
  m.phase_since = now;
  balancer_.forget(member);
}

void GangMaster::heard(int member, MonoTime now) { at(member).heard = now; }

void GangMaster::phase(int member, const std::string& text, Duration age,
                       MonoTime now) {
  at(member).phase = text;
  at(member).phase_since = now - age;
}

void GangMaster::gauge(int member, const std::string& name, double value) {
  constexpr size_t kMostGauges = 64;
  std::map<std::string, double>& gauges = at(member).gauges;
  if (gauges.size() < kMostGauges || gauges.contains(name)) {
    gauges[name] = value;
  }
}

void GangMaster::begin(int member, const Begin& begin, MonoTime now) {
  Member& m = at(member);
  if (closed() || !present(m)) return;
  m.begin = begin;
  m.updates = begin.updates;
  if (stage_ == Stage::gathering && begin.step <= committed_) {
    // It missed the end of the step; the others have done it.
    m.state = State::joined;
    m.awaited = false;
    return send(member, last_go_);
  }
  m.state = State::waiting;
  step_abandoned(now);
  advance(now);
}

void GangMaster::failed(int member, const Failed& failed, MonoTime now) {
  Member& m = at(member);
  const bool taking_part =
      in_round(m) || m.state == State::late || m.state == State::behind;
  if (stage_ != Stage::running || !taking_part) return;
  if (failed.incarnation == incarnation_) {
    m.failure = failed.what;
    m.state = State::failed;
  } else if (contains(group_, member)) {
    return;  // a regroup is on its way
  } else {
    m.state = State::behind;  // left out of a regroup: it wants to be in again
  }
  m.updates = failed.updates;
  advance(now);
}

void GangMaster::left_step(int member, MonoTime now) {
  Member& m = at(member);
  if (closed() || !present(m)) return;
  m.state = State::joined;
  m.awaited = true;
  whole_ = false;
  step_abandoned(now);
  advance(now);
}

// Where nobody is left in a step, it is void: who begins next decides.
void GangMaster::step_abandoned(MonoTime now) {
  if (stage_ != Stage::running) return;
  for (const Member& m : members_) {
    // Ahead: from a checkpoint of this step whose end nobody heard of.
    const bool ahead =
        m.state == State::waiting && m.begin.step > step_.begin.step;
    if (present(m) && m.state != State::joined && !ahead) return;
  }
  stage_ = Stage::gathering;
  gathering_since_ = now;
  broken_ = false;
  step_ = Step();
}

void GangMaster::left(int member, const std::string& why, MonoTime now) {
  Member& m = at(member);
  if (closed() || !present(m)) return;
  if (stage_ == Stage::running && m.state != State::joined) {
    return lost(member, why, now);
  }
  m.state = State::absent;
  m.awaited = false;
  step_abandoned(now);
  advance(now);
}

void GangMaster::lost(int member, const std::string& why, MonoTime now) {
  Member& m = at(member);
  if (closed() || m.state == State::gone) return;
  if (m.state == State::absent) {  // it will not come at all
    m.awaited = false;
    close_if_hopeless(member, why, now);
    return advance(now);
  }
  const std::string text =
      fmt::format("{} is lost: {}", describe(member, now), why);
  m.state = State::absent;
  m.awaited = false;
  event(GangEvent::Kind::lost, member, text);
  marks_.push_back({fmt::format("rank {} lost", member), {}});
  close_if_hopeless(member, why, now);
  step_abandoned(now);
  advance(now);
}

void GangMaster::close_if_hopeless(int lost, const std::string& why,
                                   MonoTime now) {
  bool left = false;
  for (int m = 0; m < members(); ++m) {
    const bool coming = incarnation_ == 0 && at(m).awaited;
    left = left || (computes(m) && (present(at(m)) || coming));
  }
  if (left && !needs_all() && computes(lost)) return;
  close(fmt::format("the gang cannot go on without {}: {}", describe(lost, now),
                    why));
}

void GangMaster::close(const std::string& why) {
  if (closed()) return;
  stage_ = Stage::closed;
  why_closed_ = why;
  for (int m = 0; m < members(); ++m) {
    if (present(at(m))) send(m, Closed{why});
  }
  event(GangEvent::Kind::closed, -1, why);
}

void GangMaster::tick(MonoTime now) {
  // This thread was held up (a loaded machine, a suspended process): so may
  // be what the members have said.
  const Duration gap = now - ticked_;
  if (gap > kSilent / 2) {
    for (Member& m : members_) m.heard += gap;
    for (MonoTime* t : {&round_.handed, &round_.half_ready, &broken_since_,
                        &gathering_since_}) {
      if (*t != MonoTime{}) *t += gap;
    }
  }
  ticked_ = now;
  if (closed()) return;
  check_silence(now);
  advance(now);
  tell_hanging(now);
}

void GangMaster::advance(MonoTime now) {
  if (closed()) return;
  if (stage_ == Stage::gathering) return gather(now);
  if (result_is_lost()) {
    return close(fmt::format("nobody is left who has trained step {}",
                             step_.begin.step));
  }
  if (!in_state(State::failed).empty()) {
    if (!broken_) broken_since_ = now;
    broken_ = true;
    if (accounted(now)) regroup(now);
    return;
  }
  broken_ = false;
  if (own_training() && wants_regroup()) return regroup(now);
  if (round_.half_ready == MonoTime{} && half_are_ready()) {
    round_.half_ready = now;
  }
  if (round_complete(now)) finish_round(now);
}

std::vector<GangMaster::Outgoing> GangMaster::take_orders() {
  return std::exchange(orders_, {});
}
std::vector<GangEvent> GangMaster::take_events() {
  return std::exchange(events_, {});
}
std::vector<GangMark> GangMaster::take_marks() {
  return std::exchange(marks_, {});
}

}  // namespace dtune::gang
