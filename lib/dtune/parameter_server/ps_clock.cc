#include "dtune/parameter_server/ps_clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace dtune {
PsClock::PsClock(const PsPlan& plan, PsSpeeds speeds)
    : plan_(plan),
      queue_(BatchCutter(plan.epoch_samples, plan.train.batch_size),
             plan.position, plan.end),
      batch_size_(std::min<int64_t>(plan.train.batch_size, plan.epoch_samples)),
      speeds_(std::move(speeds)),
      updates_(plan.updates),
      position_(plan.position),
      actions_(plan.session) {
  for (const int id : plan.workers) members_[id];
}

bool PsClock::is_sync() const {
  return plan_.parallel.ps.consistency == Consistency::sync;
}

// ---- Events

void PsClock::present(int member, uint64_t nonce) {
  Member& m = members_[member];
  if (m.present && m.nonce == nonce) return;
  if (m.present) gone(member);
  Member fresh;
  fresh.clock = min_clock();  // holds no other back
  fresh.decided = m.decided;
  fresh.nonce = nonce;
  fresh.present = true;
  members_[member] = std::move(fresh);
  auto& speed = speeds_[member];
  if (!speed) speed = make_speed_predictor(plan_.parallel.predictor);
  if (stage_ == Stage::finishing || stage_ == Stage::done) {
    send_end(member, members_[member]);
  }
  pump();
}

// Its samples are others' now.
void PsClock::give_back(int id, Member& member) {
  for (const Ticket& ticket : member.tickets) {
    actions_.order(ps::Drop{.member = id, .ticket = ticket.id});
    queue_.give_back(ticket.part);
  }
  member.tickets.clear();
}

void PsClock::leave_out(int member) {
  Member& m = members_.at(member);
  m.late = true;
  if (!m.tickets.empty()) {
    m.dropped = m.tickets.front();
    m.decided = m.tickets.back().id;
  }
  give_back(member, m);
  ++figures_.left_out;
  if (is_sync() && round_.batch == queue_.next_batch()) share_batch();
  check_done();
  pump();
}

bool PsClock::came_back(int member, const ps::Push* push) {
  const auto found = members_.find(member);
  if (found == members_.end() || !found->second.late) return false;
  Member& m = found->second;
  m.clock = min_clock();  // of the others: it holds none back
  m.late = false;
  m.share = -1;
  // How long it took is the best that is known of its speed.
  if (push != nullptr && m.dropped && push->ticket == m.dropped->id &&
      push->seconds > 0) {
    speeds_.at(member)->observe(static_cast<double>(m.dropped->part.size) /
                                push->seconds);
  }
  m.dropped.reset();
  if (stage_ == Stage::finishing || stage_ == Stage::done) {
    send_end(member, m);
  }
  pump();
  return true;
}

void PsClock::gone(int member) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  Member& m = found->second;
  give_back(member, m);
  if (m.present) actions_.order(ps::Forget{.member = member});
  m.present = m.late = false;
  speeds_.erase(member);
  std::erase(plan_.workers, member);
  if (is_sync() && round_.batch == queue_.next_batch()) share_batch();
  check_done();
  pump();
}

void PsClock::pushed(int member, const ps::Push& push) {
  const auto found = members_.find(member);
  if (found == members_.end() || !found->second.present) return;
  Member& m = found->second;
  if (m.tickets.empty() || m.tickets.front().id != push.ticket) return;
  const Ticket ticket = m.tickets.front();
  m.tickets.pop_front();
  ++m.clock;
  m.decided = ticket.id;
  if (push.seconds > 0) {
    speeds_.at(member)->observe(static_cast<double>(ticket.part.size) /
                                push.seconds);
  }
  check_finite(ticket, push);
  if (!diverged_.empty()) return;
  decide(member, m, ticket, push);
  pump();
}

bool PsClock::expects(int member, int64_t ticket) const {
  const auto found = members_.find(member);
  if (found == members_.end()) return false;
  const std::deque<Ticket>& tickets = found->second.tickets;
  return std::any_of(tickets.begin(), tickets.end(),
                     [=](const Ticket& t) { return t.id == ticket; });
}

void PsClock::collected(int member) {
  const auto found = members_.find(member);
  if (stage_ != Stage::finishing || found == members_.end()) return;
  found->second.collected = true;
  check_done();
}

void PsClock::check_finite(const Ticket& ticket, const ps::Push& push) {
  const bool loss = !std::isfinite(push.totals.loss);
  if (!loss && std::isfinite(push.squares)) return;
  diverged_ = fmt::format(
      "diverged: the {} became {} in epoch {:.2f} (batch {}) at a learning "
      "rate of {:.3g} (use a smaller lr, a warm-up or clip_norm)",
      loss ? "training loss" : "gradient's norm",
      loss ? push.totals.loss : std::sqrt(push.squares),
      static_cast<double>(position_) / static_cast<double>(plan_.epoch_samples),
      ticket.part.number + 1, rate(ticket.part.size));
}

// ---- End

bool PsClock::idle() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& m) { return m.second.tickets.empty(); });
}

void PsClock::finish() {
  stage_ = Stage::finishing;
  for (auto& [id, m] : members_) {
    if (m.present && !m.late) send_end(id, m);
  }
}

void PsClock::send_end(int id, Member& member) {
  serve(id, member);
  actions_.send_to(id, ps::Finish{});
}

void PsClock::check_done() {
  if (stage_ != Stage::finishing) return;
  const std::vector<int> here = active_members();
  const bool all =
      !here.empty() && std::all_of(here.begin(), here.end(), [this](int id) {
        return members_[id].collected;
      });
  if (all) stage_ = Stage::done;
}

// ---- Figures

int64_t PsClock::accepted_of(int member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? 0 : found->second.accepted;
}

std::vector<int> PsClock::present_members() const {
  std::vector<int> present;
  for (const auto& [id, m] : members_) {
    if (m.present) present.push_back(id);
  }
  return present;
}

std::vector<int> PsClock::active_members() const {
  std::vector<int> active = present_members();
  std::erase_if(active, [this](int id) { return members_.at(id).late; });
  return active;
}

std::map<int, int64_t> PsClock::owed() const {
  std::map<int, int64_t> owed;
  for (const int id : active_members()) {
    const Member& m = members_.at(id);
    if (!m.tickets.empty()) owed[id] = m.tickets.front().id;
    if (stage_ == Stage::finishing && !m.collected) owed[id] = kBuffers;
  }
  return owed;
}

std::vector<int> PsClock::missing() const {
  std::vector<int> missing;
  for (const int id : plan_.workers) {
    if (!members_.at(id).present) missing.push_back(id);
  }
  return missing;
}

std::vector<std::pair<int, int>> PsClock::waiting() const {
  int slowest = -1;
  for (const auto& [id, m] : members_) {
    if (m.tickets.empty()) continue;
    if (slowest < 0 || m.clock < members_.at(slowest).clock) slowest = id;
  }
  std::vector<std::pair<int, int>> waiting;
  for (const auto& [id, m] : members_) {
    if (m.present && !m.late && m.tickets.empty()) {
      waiting.emplace_back(id, slowest);
    }
  }
  return waiting;
}

PsFigures PsClock::take_figures() { return std::exchange(figures_, {}); }

}  // namespace dtune
