// The clock and the arrays of a parameter server, fed with pieces and gradients
// that workers could send. Each decision that the clock takes can be carried
// out, and no sample is accepted twice.
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <variant>
#include <vector>

#include "choices.h"

#include "dtune/parameter_server/ps_clock.h"
#include "dtune/parameter_server/ps_shard.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own
using fuzz::Choices;

constexpr int kWorkers = 3;
constexpr int64_t kParameters = 40;
constexpr size_t kMostMessages = 300;

PsPlan plan_of(Choices& from) {
  PsPlan plan;
  plan.train.batch_size = 8;
  plan.train.lr = 0.1;
  plan.train.momentum = from.rarely(2) ? 0.5 : 0;
  plan.parallel.ranks = kWorkers;
  ParameterServerSpec& ps = plan.parallel.ps;
  constexpr std::array kConsistency = {Consistency::sync, Consistency::ssp,
                                       Consistency::async};
  constexpr std::array kCompensation = {
      Compensation::none, Compensation::constant, Compensation::adaptive};
  ps.consistency = kConsistency[from.below(3)];
  ps.compensation = kCompensation[from.below(3)];
  ps.bound = static_cast<int>(from.below(5));
  plan.epoch_samples = 50;
  plan.end = 100;
  plan.epochs = 2;
  plan.session = 1;
  for (int i = 0; i < kWorkers; ++i) plan.workers.push_back(i);
  return plan;
}

class Server {
 public:
  explicit Server(Choices& from)
      : from_(from),
        plan_(plan_of(from)),
        clock_(plan_),
        shard_(plan_.train, plan_.parallel.ps, ps::Layout(kParameters, 1), 0,
               {weights_, first_, {}, runs_}) {}

  void run() {
    for (size_t i = 0; i < kMostMessages && !from_.done(); ++i) {
      turn();
      carry_out();
      check();
      if (!clock_.diverged().empty()) return;
    }
  }

 private:
  void turn() {
    const auto member = static_cast<int>(from_.below(kWorkers + 1));
    switch (from_.below(8)) {
      case 0:
        return clock_.present(member, from_.below(3));
      case 1:
        if (from_.rarely(8)) clock_.gone(member);
        return;
      case 2:
        return clock_.collected(member);
      case 3:
      case 4:
        return send_piece(member);
      default:
        send_piece(member);
        push(member);
    }
  }

  // The oldest ticket that the worker was given; sometimes another.
  int64_t ticket_of(int member) {
    const auto& tickets = granted_[member];
    if (tickets.empty() || from_.rarely(16)) return from_.number();
    return tickets.front();
  }

  void send_piece(int member) {
    ps::Piece piece;
    piece.session = 1;
    piece.key = ticket_of(member);
    piece.offset = from_.rarely(16) ? from_.number() : 0;
    const std::vector<float> values(
        from_.rarely(16) ? from_.below(80) : size_t{kParameters},
        static_cast<float>(from_.real()));
    piece.floats = ps::bytes_of(values);
    shard_.receive(member, piece);
  }

  // As PsLeader takes it.
  void push(int member) {
    ps::Push push;
    push.session = 1;
    push.ticket = ticket_of(member);
    push.version = from_.rarely(8) ? from_.number() : clock_.version();
    push.totals.samples = from_.rarely(8) ? from_.number() : 8;
    push.totals.weight = from_.real();
    push.totals.loss = from_.real();
    push.squares = from_.real();
    push.seconds = from_.real();
    if (!clock_.expects(member, push.ticket) ||
        !shard_.complete(member, push.ticket)) {
      return;
    }
    clock_.pushed(member, push);
  }

  void carry_out() {
    for (auto actions = clock_.take_actions(); !actions.empty();
         actions = clock_.take_actions()) {
      for (const PsAction& action : actions) {
        if (const auto* letter = std::get_if<PsToWorker>(&action)) {
          note(*letter);
        } else {
          std::visit([this](const auto& order) { obey(order); },
                     std::get<ps::Order>(action));
        }
      }
    }
  }

  void note(const PsToWorker& letter) {
    if (const auto* grant = std::get_if<ps::Grant>(&letter.message)) {
      granted_[letter.member].push_back(grant->ticket);
      if (grant->size <= 0 || grant->first < 0) std::abort();
    }
  }

  void obey(const ps::Combine& order) {
    for (const ps::Term& term : order.terms) forget(term.member, term.ticket);
    const double squares = shard_.combine(order);
    if (order.wants_squares) clock_.combined(squares);
  }
  void obey(const ps::Apply& order) { shard_.apply(order); }
  void obey(const ps::Drop& order) {
    forget(order.member, order.ticket);
    shard_.drop(order);
  }
  void obey(const ps::Serve& order) { shard_.serve(order); }
  void obey(const ps::Forget& order) { shard_.forget(order); }

  void forget(int member, int64_t ticket) {
    std::erase(granted_[member], ticket);
  }

  void check() {
    const bool sound = clock_.position() >= position_ &&
                       clock_.position() <= plan_.end &&
                       shard_.version() == clock_.version();
    if (!sound) std::abort();
    position_ = clock_.position();
  }

  Choices& from_;
  const std::vector<float> weights_ = std::vector<float>(kParameters, 1);
  const std::vector<float> first_ = std::vector<float>(kParameters);
  const std::vector<DecayRun> runs_ = {{0, kParameters, 0}};
  const PsPlan plan_;
  PsClock clock_;
  PsShard shard_;
  std::map<int, std::deque<int64_t>> granted_;  // tickets, by worker
  int64_t position_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices from(data, size);
  Server(from).run();
  return 0;
}
