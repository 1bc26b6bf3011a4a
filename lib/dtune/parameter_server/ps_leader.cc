#include "dtune/parameter_server/ps_leader.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "dtune/study/trial_runner.h"

namespace dtune {
namespace {

uint64_t fresh_session() {
  std::random_device device;
  const uint64_t high = device();
  return (high << 32 | device()) | 1;
}

}  // namespace

PsLeader::PsLeader(const SocketContext& context, const PsServerOptions& options)
    : options_(options), endpoint_(context, options.listen) {}

void PsLeader::begin(const PsStep& step) {
  step_ = step.step;
  plan_ = step.plan;
  plan_.session = fresh_session();
  parameters_ = std::ssize(step.arrays.weights);
  PsSpeeds speeds;
  if (clock_) speeds = clock_->take_speeds();
  clock_.emplace(plan_, std::move(speeds));
  shard_.emplace(plan_.train, plan_.parallel.ps,
                 ps::Layout(parameters_, options_.servers), 0, step.arrays);
  workers_.clear();
  followers_.clear();
  endpoint_.forget_all();
  pending_.clear();
  owed_.clear();
  combining_.reset();
  buffers_.assign(step.buffers.begin(), step.buffers.end());
  buffer_pieces_ = ps::Layout(std::ssize(buffers_), 1).pieces(0);
  result_.reset();
  began_ = system_clock().now();
  noticed_ = began_;
  for (const PsRequest& greeting : endpoint_.take_kept()) handle(greeting);
}

void PsLeader::poll(Duration timeout) {
  PollSet polls;
  endpoint_.add_to(polls);
  polls.wait(timeout);
  const bool all = endpoint_.receive_all([this](const PsRequest& request) {
    handle(request);
    notice();  // where there is always something to read, too
  });
  notice();
  // A peer with messages that wait to be read is not silent, also after this
  // process was stopped.
  if (all && clock_ && !trained()) watch_workers();
  if (all && clock_ && !trained()) check_patience();
}

void PsLeader::remove(int member) {
  if (!clock_) return;
  clock_->gone(member);
  workers_.erase(member);
  std::erase_if(pending_,
                [=](const auto& p) { return p.first.first == member; });
  run_actions();
}

double PsLeader::fraction() const {
  if (!clock_) return 0;
  return std::clamp(
      static_cast<double>(clock_->position() - plan_.position) /
          static_cast<double>(std::max<int64_t>(plan_.end - plan_.position, 1)),
      0.0, 1.0);
}

int PsLeader::awaited() const {
  if (!clock_) return -1;
  const std::vector<int> missing = clock_->missing();
  if (!missing.empty()) return missing.front();
  const auto waiting = clock_->waiting();
  return waiting.empty() ? -1 : waiting.front().second;
}

void PsLeader::handle(const PsRequest& request) {
  if (!clock_) return;
  const uint64_t session = ps::session_of(request.message);
  if (session != 0 && session != plan_.session) return;
  std::visit([&](const auto& message) { on(request, message); },
             request.message);
  run_actions();
}

// ---- Who is there

void PsLeader::on(const PsRequest& request, const ps::Hello& hello) {
  if (hello.step > step_) endpoint_.keep(request);
  if (hello.step != step_) return;
  if (hello.parameters != parameters_) {
    break_off(false,
              fmt::format("parameter server: member {} has a network of {} "
                          "parameters, not {} (run the same dtune on all "
                          "machines)",
                          hello.member, hello.parameters, parameters_));
  }
  Worker& worker = workers_[hello.member];
  if (worker.nonce == 0) worker.nonce = hello.nonce;
  if (worker.nonce != hello.nonce) {  // another process: the one before died
    std::map<int, uint64_t> known = std::move(worker.known);
    remove(hello.member);
    workers_[hello.member] = {.nonce = hello.nonce, .known = std::move(known)};
  }
  endpoint_.know(hello.member, request.peer);
  check_known(hello.member);
}

void PsLeader::on(const PsRequest& request, const ps::Follow& follow) {
  if (follow.step > step_) endpoint_.keep(request);
  if (follow.step != step_ || follow.server < 1 ||
      follow.server >= options_.servers) {
    return;
  }
  if (follow.parameters != parameters_) {
    break_off(false,
              fmt::format("parameter server: server {} has a network of {} "
                          "parameters, not {} (run the same dtune on all "
                          "machines)",
                          follow.server, follow.parameters, parameters_));
  }
  const auto known = followers_.find(follow.server);
  if (known != followers_.end() && known->second != request.peer) {
    // It has begun the step anew. So will this server, and be asked again; but
    // not where it is done.
    if (trained()) {
      throw TrialFailure(
          Reason::lease_lapsed,
          fmt::format("parameter server {} has lost the end of step {} (the "
                      "trial goes on from its checkpoint)",
                      follow.server, step_));
    }
    return;
  }
  followers_[follow.server] = request.peer;
  endpoint_.send(request.peer, ps::Lead{plan_.session, step_});
}

bool PsLeader::follows(const PsRequest& request, int* server) const {
  for (const auto& [id, peer] : followers_) {
    if (peer != request.peer) continue;
    *server = id;
    return true;
  }
  return false;
}

void PsLeader::on(const PsRequest& request, const ps::Present& present) {
  int server = 0;
  if (!follows(request, &server)) return;
  workers_[present.member].known[server] = present.nonce;
  check_known(present.member);
}

void PsLeader::check_known(int member) {
  const Worker& worker = workers_[member];
  if (worker.nonce == 0) return;
  for (int server = 1; server < options_.servers; ++server) {
    const auto known = worker.known.find(server);
    if (known == worker.known.end() || known->second != worker.nonce) return;
  }
  clock_->present(member, worker.nonce);
}

// ---- Gradients

void PsLeader::on(const PsRequest& request, const ps::Piece& piece) {
  const int member = endpoint_.member_of(request.peer);
  if (member < 0) return;
  if (piece.content == ps::Content::gradient) {
    shard_->receive(member, piece);
  } else if (piece.content == ps::Content::buffers) {
    take_buffers(workers_[member], piece);
  }
}

void PsLeader::on(const PsRequest& request, const ps::Push& push) {
  const int member = endpoint_.member_of(request.peer);
  if (clock_->came_back(member, &push)) {
    pace_.add(from_seconds(push.seconds));  // it may have become slow for good
  }
  if (!clock_->expects(member, push.ticket) ||
      !shard_->complete(member, push.ticket)) {
    return;
  }
  const Key key{member, push.ticket};
  Pending& pending = pending_[key];
  if (pending.push) return;
  pending.push = push;
  pending.since = system_clock().now();
  check_arrived(key);
}

void PsLeader::on(const PsRequest& request, const ps::Arrived& arrived) {
  int server = 0;
  if (!follows(request, &server) ||
      !clock_->expects(arrived.member, arrived.ticket)) {
    return;  // of one that died
  }
  const Key key{arrived.member, arrived.ticket};
  const auto [place, fresh] = pending_.try_emplace(key);
  if (fresh) place->second.since = system_clock().now();
  place->second.arrived.insert(server);
  check_arrived(key);
}

void PsLeader::check_arrived(const Key& key) {
  const auto found = pending_.find(key);
  if (!found->second.push ||
      std::ssize(found->second.arrived) < options_.servers - 1) {
    return;
  }
  const ps::Push push = *found->second.push;
  pending_.erase(found);
  clock_->pushed(key.first, push);
}

void PsLeader::on(const PsRequest& request, const ps::Combined& combined) {
  int server = 0;
  if (!follows(request, &server) || !combining_ ||
      combined.sequence != combining_->sequence) {
    return;
  }
  squares_[server] = combined.squares;
  check_combined();
}

void PsLeader::check_combined() {
  if (!combining_ || std::ssize(squares_) < options_.servers) return;
  double sum = 0;
  for (const auto& [server, squares] : squares_) sum += squares;
  combining_.reset();
  clock_->combined(sum);
}

// ---- Actions

void PsLeader::run_actions() {
  if (!clock_->diverged().empty()) break_off(true, clock_->diverged());
  std::vector<PsAction> actions = clock_->take_actions();
  while (!actions.empty()) {
    for (const PsAction& action : actions) {
      if (const auto* letter = std::get_if<PsToWorker>(&action)) {
        endpoint_.send_to(letter->member, letter->message);
      } else {
        execute(std::get<ps::Order>(action));
      }
    }
    actions = clock_->take_actions();  // what the last ones led to
  }
  check_finished();
}

void PsLeader::execute(const ps::Order& order) {
  // First to the others: they work at the same time.
  std::visit([this](const auto& o) { send_followers(o); }, order);
  if (const auto* combine = std::get_if<ps::Combine>(&order)) {
    const double squares = shard_->combine(*combine);
    if (!combine->wants_squares) return;
    combining_ = *combine;
    squares_ = {{0, squares}};
    check_combined();
  } else if (const auto* apply = std::get_if<ps::Apply>(&order)) {
    shard_->apply(*apply);
  } else if (const auto* drop = std::get_if<ps::Drop>(&order)) {
    shard_->drop(*drop);
  } else if (const auto* serve = std::get_if<ps::Serve>(&order)) {
    shard_->serve(*serve);
    endpoint_.serve(*shard_, *serve);
  } else {
    shard_->forget(std::get<ps::Forget>(order));
  }
}

void PsLeader::send_followers(const ps::Message& message) {
  for (const auto& [server, peer] : followers_) {
    if (!endpoint_.send(peer, message)) {
      break_off(false, fmt::format("parameter server: server {} is gone (the "
                                   "trial goes on from its checkpoint)",
                                   server));
    }
  }
}

// ---- The step's end

void PsLeader::take_buffers(Worker& worker, const ps::Piece& piece) {
  worker.buffers.resize(buffers_.size());
  const auto next = worker.buffer_pieces;  // they come in order
  if (next >= buffer_pieces_.size()) return;
  const ps::Range range = buffer_pieces_[next];
  const auto size = static_cast<size_t>(range.size());
  if (range.begin != piece.offset ||
      piece.floats.size() != size * sizeof(float)) {
    return;
  }
  ps::copy_floats(piece.floats,
                  std::span(worker.buffers)
                      .subspan(static_cast<size_t>(range.begin), size));
  ++worker.buffer_pieces;
}

void PsLeader::on(const PsRequest& request, const ps::Buffers& /*buffers*/) {
  const int member = endpoint_.member_of(request.peer);
  const auto found = workers_.find(member);
  if (found == workers_.end() ||
      found->second.buffer_pieces < buffer_pieces_.size()) {
    return;
  }
  clock_->came_back(member);
  if (trained()) {
    send_final(member);  // it came when all was done
  } else {
    clock_->collected(member);
  }
}

void PsLeader::send_final(int member) {
  const bool all = endpoint_.send_values(endpoint_.peer_of(member),
                                         {.session = plan_.session,
                                          .content = ps::Content::buffers,
                                          .key = clock_->version()},
                                         buffers_, buffer_pieces_);
  if (all) endpoint_.send_to(member, *result_);
}

// Weighted by the samples that each worker's gradients stand for; a worker
// that came last, with none, adds nothing.
void PsLeader::mean_buffers() {
  const std::vector<int> members = clock_->active_members();
  int64_t all = 0;
  for (const int id : members) all += clock_->accepted_of(id);
  if (all == 0 || buffers_.empty()) return;
  std::vector<double> sums(buffers_.size());
  for (const int id : members) {
    const std::vector<float>& own = workers_.at(id).buffers;
    const double weight =
        static_cast<double>(clock_->accepted_of(id)) / static_cast<double>(all);
    if (weight == 0) continue;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * own[i];
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    buffers_[i] = static_cast<float>(sums[i]);
  }
}

void PsLeader::check_finished() {
  if (result_ || !clock_->done()) return;
  mean_buffers();
  result_ = ps::Final{.session = plan_.session,
                      .version = clock_->version(),
                      .updates = clock_->updates(),
                      .position = clock_->position(),
                      .totals = clock_->totals()};
  for (const int id : clock_->active_members()) send_final(id);
  send_followers(*result_);
}

void PsLeader::on(const PsRequest& request, const ps::WantState& /*want*/) {
  const int member = endpoint_.member_of(request.peer);
  if (member < 0 || !trained()) return;
  endpoint_.send_state(member, *shard_, plan_.session);
  ++states_;
}

void PsLeader::break_off(bool diverged, const std::string& why) {
  const ps::Broken broken{plan_.session, diverged, why};
  endpoint_.send_to_all(broken);
  for (const auto& [server, peer] : followers_) endpoint_.send(peer, broken);
  clock_.reset();
  // A step that is trained is not repeated.
  if (trained() && !diverged) throw TrialFailure(Reason::lease_lapsed, why);
  throw_broken(broken);
}

}  // namespace dtune
