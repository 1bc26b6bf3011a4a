// Decisions about gradients and work: the other half of ps_clock.cc.
#include <algorithm>
#include <utility>

#include "dtune/parameter_server/ps_clock.h"
#include "dtune/parameter_server/ps_rules.h"
#include "dtune/speed/shares.h"
#include "dtune/train/schedule.h"

namespace dtune {
namespace {

// Batch norm needs two samples.
constexpr int64_t kLeastSamples = 2;

// A worker has no more samples than its part.
LossTotals bounded(LossTotals totals, int64_t part) {
  totals.samples = std::clamp<int64_t>(totals.samples, 0, part);
  totals.correct = std::clamp<int64_t>(totals.correct, 0, totals.samples);
  return totals;
}

}  // namespace

// ---- Decisions

void PsClock::decide(int id, Member& member, const Ticket& ticket,
                     const ps::Push& push) {
  if (is_sync()) {
    round_.terms.push_back({id, ticket.id, push.totals.weight});
    round_.samples += ticket.part.size;
    round_.samples_of.emplace_back(id, ticket.part.size);
    round_.totals += bounded(push.totals, ticket.part.size);
    return;
  }
  const int64_t tau = staleness(member, push.version);
  if (tau >= discard_threshold(plan_.parallel)) {
    actions_.order(ps::Drop{.member = id, .ticket = ticket.id});
    queue_.give_back(ticket.part);
    ++figures_.discarded;
  } else {
    accept(id, member, ticket, push, tau);
  }
  // What it computes next is the newer, the sooner it has the weights.
  if (!member.tickets.empty()) serve(id, member);
}

void PsClock::accept(int id, Member& member, const Ticket& ticket,
                     const ps::Push& push, int64_t tau) {
  const double factor =
      staleness_factor(plan_.parallel.ps.staleness_lr, tau,
                       static_cast<int>(active_members().size()));
  // A gradient is the mean by the samples' weights, and their mean over the
  // data is 1 (balanced_weights): what the part is of a usual batch.
  const double share = push.totals.weight / static_cast<double>(batch_size_);
  actions_.order(ps::Combine{.terms = {{id, ticket.id, 1}}});
  apply(rate(ticket.part.size) * share * factor,
        clip_scale(plan_.train.clip_norm, push.squares), id, push.version);
  member.versions.push_back(version_);
  // No reading is older than the bound and what is handed out ahead.
  if (std::ssize(member.versions) > plan_.parallel.ps.bound + 4) {
    member.versions.pop_front();
  }
  position_ += ticket.part.size;
  member.accepted += ticket.part.size;
  totals_ += bounded(push.totals, ticket.part.size);
  const auto n = static_cast<double>(++figures_.applied);
  figures_.mean_staleness +=
      (static_cast<double>(tau) - figures_.mean_staleness) / n;
  figures_.mean_factor += (factor - figures_.mean_factor) / n;
  figures_.max_staleness = std::max(figures_.max_staleness, tau);
}

void PsClock::apply(double lr, double scale, int worker, int64_t version) {
  ++version_;
  ++updates_;
  actions_.order(ps::Apply{.lr = lr,
                           .number = updates_,
                           .scale = scale,
                           .worker = worker,
                           .version = version});
}

int64_t PsClock::staleness(const Member& member, int64_t version) const {
  const int64_t used = std::clamp<int64_t>(version, 0, version_);
  if (plan_.parallel.ps.compensation != Compensation::none) {
    return version_ - used;  // its own updates are not in what it reads
  }
  const auto own = std::count_if(member.versions.begin(), member.versions.end(),
                                 [=](int64_t v) { return v > used; });
  return version_ - used - own;
}

double PsClock::rate(int64_t samples) const {
  const double middle =
      static_cast<double>(position_) + static_cast<double>(samples) / 2;
  return plan_.train.lr *
         schedule_factor(plan_.train.schedule,
                         middle / static_cast<double>(plan_.epoch_samples),
                         plan_.epochs);
}

// ---- sync

void PsClock::open_batch() {
  round_ = {.batch = queue_.next_batch()};
  share_batch();
}

// What is not taken of it. Again when a worker has died: else the slowest could
// take the rest in many small parts.
void PsClock::share_batch() {
  for (auto& [id, m] : members_) m.share = 0;
  for (const auto& [id, share] : shares(queue_.batch_left())) {
    members_.at(id).share = share;
  }
}

void PsClock::close_batch() {
  const double all = round_.totals.weight;
  for (size_t i = 0; i < round_.terms.size(); ++i) {
    ps::Term& term = round_.terms[i];
    term.factor = all > 0 ? term.factor / all
                          : static_cast<double>(round_.samples_of[i].second) /
                                static_cast<double>(round_.samples);
  }
  round_.combining = true;
  const bool clips = plan_.train.clip_norm > 0;
  actions_.order(ps::Combine{.terms = round_.terms, .wants_squares = clips});
  if (!clips) apply_round(0);
}

void PsClock::combined(double squares) {
  if (!round_.combining) return;
  apply_round(squares);
  pump();
}

void PsClock::apply_round(double squares) {
  apply(rate(round_.samples), clip_scale(plan_.train.clip_norm, squares), -1,
        version_);
  position_ += round_.samples;
  totals_ += round_.totals;
  for (const auto& [id, samples] : round_.samples_of) {
    members_[id].accepted += samples;
  }
  ++figures_.applied;
  round_ = {};
}

// ---- Work

// sync: 1 batch; else one iteration ahead where the bound allows it, but not
// near the end, where it would be work that others wait for.
int PsClock::depth() const {
  const bool ahead = plan_.parallel.ps.consistency == Consistency::ssp &&
                     plan_.parallel.ps.bound >= 1 &&
                     queue_.left() >= 2 * batch_size_;
  return ahead ? 2 : 1;
}

int64_t PsClock::min_clock() const {
  int64_t least = -1;
  for (const auto& [id, m] : members_) {
    if (m.present && !m.late)
      least = least < 0 ? m.clock : std::min(least, m.clock);
  }
  return std::max<int64_t>(least, 0);
}

bool PsClock::may_start(const Member& member) const {
  if (!member.present || member.late) return false;
  if (std::ssize(member.tickets) >= depth()) return false;
  if (plan_.parallel.ps.consistency != Consistency::ssp) return true;
  const int64_t next = member.clock + std::ssize(member.tickets);
  return next - min_clock() <= plan_.parallel.ps.bound;
}

// Of those that are active. stragglers: auto gives each as much as it does in
// the time of the others, so that no clock runs ahead and none lags behind.
std::map<int, int64_t> PsClock::shares(int64_t samples) const {
  const std::vector<int> members = active_members();
  std::map<int, int64_t> shares;
  if (members.empty()) return shares;
  if (plan_.parallel.stragglers == StragglerPolicy::off) {
    const auto count = std::ssize(members);
    for (const int id : members) shares[id] = (samples + count - 1) / count;
    return shares;
  }
  std::vector<double> speeds;
  speeds.reserve(members.size());
  for (const int id : members) speeds.push_back(speeds_.at(id)->predict());
  const std::vector<int64_t> split =
      split_batch(samples, speeds, {.least = kLeastSamples});
  for (size_t i = 0; i < members.size(); ++i) shares[members[i]] = split[i];
  return shares;
}

Portion PsClock::portion_for(int id, const Member& member) const {
  if (is_sync()) {
    const int64_t usual =
        member.share < 0 ? batch_size_ : std::max(member.share, kLeastSamples);
    return {usual, usual + kLeastSamples - 1};
  }
  const int64_t usual = std::max(shares(batch_size_).at(id), kLeastSamples);
  return {usual, usual + usual / 2};
}

void PsClock::pump() {
  if (stage_ == Stage::gathering && missing().empty() &&
      !present_members().empty()) {
    stage_ = Stage::training;
  }
  if (stage_ != Stage::training || !diverged_.empty()) return;
  while (grant_one()) {
  }
  if (queue_.empty() && idle() && !round_.combining) finish();
}

// To the worker that is furthest behind.
bool PsClock::grant_one() {
  if (is_sync() && round_.batch != queue_.next_batch()) {
    if (round_.combining || !idle()) return false;
    if (!round_.terms.empty()) {
      close_batch();
      return !round_.combining;
    }
    open_batch();
  }
  if (queue_.empty()) return false;
  Member* next = nullptr;
  int id = -1;
  for (auto& [other, m] : members_) {
    if (!may_start(m)) continue;
    if (next == nullptr || m.clock + std::ssize(m.tickets) <
                               next->clock + std::ssize(next->tickets)) {
      next = &m;
      id = other;
    }
  }
  if (next == nullptr) return false;
  grant(id, *next, *queue_.take(portion_for(id, *next)));
  return true;
}

void PsClock::grant(int id, Member& member, const SamplePart& part) {
  const bool fresh = member.served == version_ &&
                     (is_sync() || member.served_ticket == member.decided);
  if (!fresh && member.tickets.empty()) serve(id, member);
  const double share = is_sync() ? 0
                                 : static_cast<double>(part.size) /
                                       static_cast<double>(batch_size_);
  ps::Grant grant{.version = member.served,
                  .ticket = ++tickets_,
                  .clock = member.clock + std::ssize(member.tickets),
                  .epoch = part.epoch,
                  .number = part.number,
                  .first_sample = part.first_sample,
                  .first = part.first,
                  .size = part.size,
                  .lr = rate(part.size) * share};
  member.tickets.push_back({grant.ticket, part});
  actions_.send_to(id, grant);
}

void PsClock::serve(int id, Member& member) {
  member.served = version_;
  member.served_ticket = member.decided;
  actions_.order(ps::Serve{
      .member = id, .ticket = member.decided, .min_clock = min_clock()});
}

}  // namespace dtune
