// Rounds: who is ready, who is late, what is next.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/master.h"

namespace dtune::gang {
namespace {

int64_t samples_of(const std::vector<Span>& spans) {
  int64_t sum = 0;
  for (const Span& span : spans) sum += span.size;
  return sum;
}

Totals& operator+=(Totals& sum, const Totals& part) {
  sum.loss += part.loss;
  sum.weight += part.weight;
  sum.right += part.right;
  sum.samples += part.samples;
  return sum;
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

void GangMaster::ready(int member, const Ready& ready, MonoTime now) {
  Member& m = at(member);
  const bool owes = m.state == State::working || m.state == State::late;
  if (stage_ != Stage::running || !owes) return;
  if (ready.round != m.work.round) return;
  const Duration taken = now - m.handed;
  if (m.work.phase == Phase::train && !step_.begin.own_training && !m.unpaced &&
      samples_of(m.work.spans) > 0) {
    pace_.add(taken);
  }
  observe(member, ready.times, taken);
  m.updates = ready.updates;
  m.totals = ready.totals;
  m.metrics = ready.metrics;
  m.ready_at = now;
  const bool in_step = step_.begin.own_training || m.updates == updates_;
  if (m.state == State::late || !in_step) {
    m.state = State::behind;
    suspect(member, taken);
  } else {
    m.state = State::ready;
    if (m.lagging || m.returning) {
      event(GangEvent::Kind::rejoined, member,
            fmt::format("{} has caught up", describe(member, now)));
    }
    m.lagging = m.returning = m.forked = false;
    const auto count = in_state(State::ready).size();
    if (2 * count >= round_.members.size() && round_.half_ready == MonoTime{}) {
      round_.half_ready = now;
    }
  }
  advance(now);
}

void GangMaster::observe(int member, const RoundTimes& times, Duration taken) {
  Member& m = at(member);
  RoundTimes& sum = m.times;
  sum.samples += times.samples;
  sum.data += times.data;
  sum.forward += times.forward;
  sum.backward += times.backward;
  sum.exposed += times.exposed;
  sum.waiting += times.waiting;
  sum.update += times.update;
  sum.other += times.other;
  const double compute = times.compute();
  if (m.phase_before != Phase::train || times.samples <= 0) return;
  if (!(compute > 0)) return;
  balancer_.observe(member, static_cast<double>(times.samples) / compute);
  constexpr double kNewest = 0.1;  // of a moving average
  const double all =
      compute + times.exposed + times.waiting + times.update + times.other;
  m.wait_share += kNewest * (times.waiting / all - m.wait_share);
  const double overhead = std::max(0.0, to_seconds(taken) - compute);
  m.overhead +=
      (m.overhead < 0 ? 1 : kNewest) * (overhead - std::max(0.0, m.overhead));
}

// What it needed for the work that went on without it is the best that is
// known of its speed until its own figures come.
void GangMaster::suspect(int member, Duration taken) {
  const Member& m = at(member);
  const auto samples = static_cast<double>(samples_of(m.work.spans));
  if (m.work.phase == Phase::train && taken > Duration{0}) {
    balancer_.suspect(member, samples / to_seconds(taken));
  }
}

bool GangMaster::round_complete(MonoTime now) const {
  const auto working = in_state(State::working);
  if (!working.empty()) return overdue(now);
  return !responsive().empty();
}

bool GangMaster::overdue(MonoTime now) const {
  if (!automatic() || own_training() || needs_all()) return false;
  const std::vector<int> ready = in_state(State::ready);
  if (ready.empty() || 2 * static_cast<int>(ready.size()) < count_present()) {
    return false;
  }
  // Those who give or get state compute only then.
  MonoTime base = round_.handed;
  if (round_.source >= 0 && present(at(round_.source))) {
    if (at(round_.source).state != State::ready) return false;
    base = at(round_.source).ready_at;
  }
  const Duration half = round_.half_ready - base;
  if (round_.settling) return now - round_.half_ready > 2 * patience();
  if (step_.phase != Phase::train || round_.idle) {
    if (step_.phase == Phase::commit && !contains(ready, round_.lead))
      return false;
    return now - base > 3 * half + kSilent;
  }
  const double expected =
      balancer_.expected_seconds(round_.members, round_.sizes);
  const auto deadline = pace_.deadline(from_seconds(expected));
  return deadline && now - base > *deadline;
}

void GangMaster::finish_round(MonoTime now) {
  const std::vector<int> participants = in_state(State::ready);
  drop_late(now);
  int64_t samples = 0;
  for (const int p : participants) samples += samples_of(at(p).work.spans);
  // Nothing came of it: hand out anew.
  const bool train = step_.phase == Phase::train && !step_.begin.own_training;
  const bool no_lead =
      step_.phase == Phase::commit && !contains(participants, round_.lead);
  if (round_.idle || participants.empty() || no_lead ||
      (train && samples == 0)) {
    return regroup(now);
  }
  Go go;
  go.round = round_.number;
  go.participants = participants;
  go.patience = patience();
  go.totals = accept_round(participants, now);
  failures_on_end_ = 0;
  if (step_.phase == Phase::commit) return finish_commit(go);
  const bool more = train && !step_.queue->done();
  const int evicted = more ? judge(participants, now) : -1;
  enter_phase();
  go_on(std::move(go), evicted, now);
}

// Tells the participants to reduce, and hands out the next round.
void GangMaster::go_on(Go go, int evicted, MonoTime now) {
  std::vector<int> next = go.participants;
  std::erase(next, evicted);
  const bool commit = step_.phase == Phase::commit;
  const bool idle = !commit && wants_regroup();
  const std::vector<int> back =
      commit || idle ? std::vector<int>{} : in_state(State::behind);
  for (const int b : back) {
    if (lags(b)) go.targets.push_back(b);
  }
  if (!go.targets.empty()) go.source = choose_source(next);
  next.insert(next.end(), back.begin(), back.end());
  std::sort(next.begin(), next.end());
  hand_out(next, go.participants.front(), idle, now);
  round_.source = go.source;
  if (go.source >= 0) at(go.source).unpaced = true;
  for (const int p : go.participants) {
    Go order = go;
    order.next.round = round_.number;
    if (p != evicted) order.next = at(p).work;
    send(p, std::move(order));
  }
  for (const int b : back) {
    const bool target = contains(go.targets, b);
    at(b).lagging = target;
    at(b).returning = true;
    at(b).unpaced = true;
    send(b, CatchUp{go.round, updates_, target ? go.source : -1, go.patience,
                    at(b).work});
    marks_.push_back({fmt::format("rank {} catches up", b), {}});
  }
  if (evicted >= 0) send(evicted, Evicted{events_.back().text});
}

bool GangMaster::lags(int member) const {
  const Member& m = at(member);
  return m.forked || m.updates != updates_;
}

void GangMaster::drop_late(MonoTime now) {
  for (const int w : in_state(State::working)) {
    Member& m = at(w);
    m.state = State::late;
    m.lagging = false;
    ++m.late;
    event(GangEvent::Kind::late, w,
          fmt::format("round {} went on without {}", round_.number,
                      describe(w, now)));
    marks_.push_back({fmt::format("go without rank {}", w), {}});
  }
}

Totals GangMaster::accept_round(const std::vector<int>& participants,
                                MonoTime now) {
  Totals totals;
  std::vector<Span> done;
  for (const int p : participants) {
    const Member& m = at(p);
    totals += m.totals;
    done.insert(done.end(), m.work.spans.begin(), m.work.spans.end());
    if (step_.begin.own_training) updates_ = std::max(updates_, m.updates);
  }
  switch (step_.phase) {
    case Phase::train:
      step_.trained = true;
      if (step_.begin.own_training) break;
      step_.queue->accept(done);
      ++updates_;
      pace_.end_round();
      remember_accepted(samples_of(done), now);
      break;
    case Phase::evaluate:
      accept_evaluation(merged(std::move(done)), participants.front());
      return step_.evaluated += totals;
    case Phase::commit:
      break;
  }
  return totals;
}

// The answers of a round are gathered by its lead: with another lead, those of
// the rounds before are gone.
void GangMaster::accept_evaluation(const std::vector<Span>& done, int lead) {
  if (step_.evaluation_lead >= 0 && step_.evaluation_lead != lead) {
    restart_evaluation();
  }
  step_.evaluation_lead = lead;
  step_.evaluation = without(step_.evaluation, done);
}

void GangMaster::restart_evaluation() {
  step_.evaluation_lead = -1;
  step_.evaluated = Totals();
  step_.evaluation.clear();
  if (step_.begin.evaluation_batches > 0) {
    step_.evaluation = {{0, step_.begin.evaluation_batches}};
  }
}

void GangMaster::remember_accepted(int64_t samples, MonoTime now) {
  constexpr size_t kRecent = 64;
  accepted_.push_back({now, samples});
  if (accepted_.size() > kRecent) accepted_.erase(accepted_.begin());
}

void GangMaster::finish_commit(Go go) {
  go.last = true;
  go.metrics = at(round_.lead).metrics;
  committed_ = step_.begin.step;
  committed_updates_ = updates_;
  last_go_ = go;
  for (int i = 0; i < members(); ++i) {
    Member& m = at(i);
    const bool ahead = m.state == State::waiting && m.begin.step > committed_;
    if (!present(m) || m.state == State::joined || ahead) continue;
    m.awaited = m.state == State::ready;
    m.state = State::joined;
    m.lagging = m.returning = false;
    send(i, go);
  }
  stage_ = Stage::gathering;
  gathering_since_ = MonoTime{};
}

// Another round of this step would need groups that there are not.
bool GangMaster::wants_regroup() const {
  const bool whole = std::all_of(group_.begin(), group_.end(), [&](int m) {
    return present(at(m)) && at(m).state != State::joined;
  });
  if (own_training() && !whole) return true;  // it must be known who is here
  for (int i = 0; i < members(); ++i) {
    const Member& m = at(i);
    if (m.state == State::behind && (!whole || !contains(group_, i))) {
      return true;
    }
    if (m.state == State::waiting && m.quarantine <= round_.number &&
        m.begin.step <= step_.begin.step) {
      return true;
    }
  }
  return false;
}

// The fastest: it is the one that the others are least likely to wait for.
int GangMaster::choose_source(const std::vector<int>& candidates) const {
  return *std::max_element(
      candidates.begin(), candidates.end(), [this](int a, int b) {
        return balancer_.predicted(a) < balancer_.predicted(b);
      });
}

int GangMaster::judge(const std::vector<int>& participants, MonoTime now) {
  const ParallelSpec& parallel = options_.parallel;
  if (!automatic() || parallel.mode != ParallelMode::data) return -1;
  if (round_.settling) return -1;
  std::vector<double> overheads;
  for (const int p : participants) {
    if (at(p).overhead >= 0) overheads.push_back(at(p).overhead);
  }
  if (overheads.empty()) return -1;
  const auto middle =
      overheads.begin() + static_cast<std::ptrdiff_t>(overheads.size() / 2);
  std::nth_element(overheads.begin(), middle, overheads.end());
  const auto evicted =
      balancer_.judge(round_.batch.size, participants, *middle);
  if (!evicted) return -1;
  event(GangEvent::Kind::evicted, *evicted,
        fmt::format("{} costs more than it brings: {:.0f} samples/s, and each "
                    "round spends {:.3f} s on keeping together",
                    describe(*evicted, now), balancer_.predicted(*evicted),
                    *middle));
  marks_.push_back({fmt::format("rank {} evicted", *evicted), {}});
  at(*evicted).state = State::gone;
  return *evicted;
}

void GangMaster::enter_phase() {
  if (step_.phase == Phase::train) {
    const bool done =
        step_.begin.own_training
            ? step_.trained || step_.begin.position >= step_.begin.end
            : step_.queue->done();
    if (done) step_.phase = Phase::evaluate;
  }
  if (step_.phase == Phase::evaluate && step_.evaluation.empty()) {
    step_.phase = Phase::commit;
  }
}

void GangMaster::hand_out(const std::vector<int>& to, int lead, bool idle,
                          MonoTime now) {
  const int64_t number = round_.number + 1;
  round_ = Round();
  round_.number = number;
  round_.handed = now;
  round_.idle = idle;
  round_.lead = lead;
  round_.members = to;
  Work work;
  work.round = number;
  work.phase = step_.phase;
  if (!idle) plan_round(work);
  int64_t offset = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    Member& m = at(to[i]);
    m.phase_before = m.work.phase;
    m.work = work;
    m.work.first_sample = offset;
    if (!round_.sizes.empty()) {
      m.work.spans = slice(round_.batch.spans, offset, round_.sizes[i]);
      offset += round_.sizes[i];
    }
    m.handed = now;
    m.unpaced = false;
    m.state = State::working;
  }
}

// Fills what all members' work has in common, and round_.batch and sizes.
void GangMaster::plan_round(Work& work) {
  const Begin& begin = step_.begin;
  QueuedBatch& batch = round_.batch;
  std::vector<int> computing;
  for (const int m : round_.members) {
    if (computes(m)) computing.push_back(m);
  }
  std::vector<int64_t> sizes;
  if (step_.phase == Phase::train && begin.own_training) {
    const BatchRange first =
        BatchCutter(begin.epoch_samples, begin.batch_size).at(begin.position);
    work.epoch = first.epoch;
    work.number = first.number;
    work.position = begin.position;
    work.batch_samples = begin.end - begin.position;
    return;
  }
  if (step_.phase == Phase::train) {
    batch = step_.queue->next();
    sizes = balancer_.split(batch.size, computing);
    tell_shares(computing, sizes);
  } else if (step_.phase == Phase::evaluate) {
    batch.spans = step_.evaluation;
    batch.size = samples_of(batch.spans);
    sizes = balancer_.split_once(batch.size, computing);
  } else {
    // The lead's work, and nobody else's.
    batch.spans = {{0, 1}};
    batch.size = 1;
    for (const int m : round_.members)
      sizes.push_back(m == round_.lead ? 1 : 0);
  }
  work.epoch = batch.epoch;
  work.number = batch.number;
  work.position = batch.position;
  work.batch_samples = batch.size;
  round_.sizes.assign(round_.members.size(), 0);
  std::copy(sizes.begin(), sizes.end(), round_.sizes.begin());
}

}  // namespace dtune::gang
