// Work: what is handed out, what of it counts.
#include <algorithm>
#include <utility>

#include "dtune/gang/master.h"

namespace dtune::gang {
namespace {

Totals& operator+=(Totals& sum, const Totals& part) {
  sum.loss += part.loss;
  sum.weight += part.weight;
  sum.right += part.right;
  sum.samples += part.samples;
  return sum;
}

}  // namespace

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
