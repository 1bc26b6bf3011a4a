// Decision logic of a parameter server: which worker computes what, whose
// gradient counts and how much. Pure decisions, without arrays, sockets or
// time. No LibTorch.
//
// A worker's cycle is: work and weights of version v -> gradient -> decision ->
// more work and newer weights. What the decision is, by `consistency`:
//   sync   a batch is shared out among all; when all of its parts have come,
//          their mean, weighted as the loss weighs samples, is applied once.
//          Equals one process to rounding, batch norm aside.
//   ssp    (Ho et al. 2013, NIPS) every gradient is applied at once. A worker
//          begins iteration c only if c - min c <= bound; with its weights come
//          all updates of clocks <= c - bound - 1. It has work for one
//          iteration ahead (bound >= 1), so that it computes on with the
//          weights that it has while newer ones travel.
//   async  every gradient is applied at once, no worker waits.
// ssp and async: w -= lr share factor(staleness) direction, where share is the
// samples' weight over the batch size (data.balance: by class; their mean is
// 1): a round of n workers moves as far as one synchronous step. Momentum and
// Adam's moments live on the server and follow every single update. Staleness
// counts the updates of others between the weights of the gradient and those
// that it meets: a worker's own are in what it reads, but under delay
// compensation, which has to know the weights that were used. Schedules go by
// accepted samples.
//
// A gradient that is dropped (too stale), or whose worker is gone or late,
// leaves its samples to the next worker: each sample of an epoch is accepted
// exactly once. A dead worker counts in no clock, and neither does one that is
// late: it is left out from then until its gradient comes, which is dropped.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dtune/data/sample_queue.h"
#include "dtune/gang/messages.h"
#include "dtune/parameter_server/ps_protocol.h"
#include "dtune/speed/speed_predictor.h"
#include "dtune/study/parallel_spec.h"
#include "dtune/study/train_spec.h"

namespace dtune {

// One fidelity step.
struct PsPlan {
  TrainSpec train;
  ParallelSpec parallel;
  double epochs = 1;  // of the whole training: what schedules go by
  int64_t epoch_samples = 1;
  int64_t position = 0;  // samples accepted before
  int64_t end = 1;       // of the step
  int64_t updates = 0;   // of the optimizer, before
  uint64_t session = 0;
  std::vector<int> workers;  // it does not begin without them
};

// What a server does next: an order, for itself and all followers, or a message
// to a worker.
struct PsToWorker {
  int member = 0;
  ps::Message message;
};
using PsAction = std::variant<ps::Order, PsToWorker>;

// What was decided since it was last asked.
struct PsFigures {
  int64_t applied = 0;  // gradients
  int64_t discarded = 0;
  double mean_staleness = 0;  // of those applied
  int64_t max_staleness = 0;
  double mean_factor = 1;  // of the learning rate, for staleness
  int64_t left_out = 0;    // workers, each time
};

// Actions in their order, stamped with session and sequence.
class PsActions {
 public:
  explicit PsActions(uint64_t session) : session_(session) {}

  template <class Order>
  void order(Order order) {
    order.session = session_;
    order.sequence = ++sequence_;
    actions_.emplace_back(ps::Order(std::move(order)));
  }
  template <class M>
  void send_to(int member, M message) {
    message.session = session_;
    actions_.emplace_back(PsToWorker{member, ps::Message(std::move(message))});
  }
  std::vector<PsAction> take() { return std::exchange(actions_, {}); }

 private:
  uint64_t session_;
  int64_t sequence_ = 0;
  std::vector<PsAction> actions_;
};

// Of the workers, by member.
using PsSpeeds = std::map<int, std::unique_ptr<SpeedPredictor>>;

// Not thread-safe. Events in, actions out, in the order that they must be
// executed in.
class PsClock {
 public:
  // `speeds`: as the step before left them; workers that they lack begin with
  // equal shares.
  explicit PsClock(const PsPlan& plan, PsSpeeds speeds = {});

  // All servers know the worker. A new nonce: another process, or another try.
  void present(int member, uint64_t nonce);
  // The ticket is the worker's and not decided yet.
  bool expects(int member, int64_t ticket) const;
  // A gradient is held by all servers.
  void pushed(int member, const ps::Push& push);
  // The answer to Combine::wants_squares, of all servers together.
  void combined(double squares);
  // The worker's buffers have come.
  void collected(int member);
  void gone(int member);
  // The others go on without it. REQUIRES: it owes something.
  void leave_out(int member);
  // A worker sends; `push`: its gradient, if it is one. False where it had not
  // been left out.
  bool came_back(int member, const ps::Push* push = nullptr);

  std::vector<PsAction> take_actions() { return actions_.take(); }

  // All samples are accepted and all workers' buffers collected.
  bool done() const { return stage_ == Stage::done; }
  // Empty while all is well.
  const std::string& diverged() const { return diverged_; }

  int64_t version() const { return version_; }
  int64_t updates() const { return updates_; }
  int64_t position() const { return position_; }
  const LossTotals& totals() const { return totals_; }
  int64_t accepted_of(int member) const;  // samples
  std::vector<int> present_members() const;
  // Those that are not left out.
  std::vector<int> active_members() const;
  // What active workers have not sent yet, by member: a ticket, or kBuffers at
  // the step's end.
  static constexpr int64_t kBuffers = 0;
  std::map<int, int64_t> owed() const;
  // Workers that have nothing to do, and the ones that they wait for.
  std::vector<std::pair<int, int>> waiting() const;
  // Those whose absence keeps the step from beginning.
  std::vector<int> missing() const;
  PsFigures take_figures();
  // For the next step. The last call.
  PsSpeeds take_speeds() { return std::move(speeds_); }

 private:
  enum class Stage { gathering, training, finishing, done };

  struct Ticket {
    int64_t id = 0;
    SamplePart part;
  };

  struct Member {
    bool present = false;
    uint64_t nonce = 0;
    int64_t clock = 0;             // gradients pushed
    std::deque<Ticket> tickets;    // handed out, oldest first
    int64_t served = -1;           // version sent last
    int64_t served_ticket = 0;     // decided then
    int64_t decided = 0;           // ticket
    std::deque<int64_t> versions;  // of its own latest updates, ascending
    int64_t share = -1;            // sync: of this batch; -1: it came later
    int64_t accepted = 0;
    bool collected = false;
    bool late = false;              // left out
    std::optional<Ticket> dropped;  // that it had then: the first
  };

  // sync: what has come of the batch.
  struct Round {
    std::optional<int64_t> batch;
    bool combining = false;
    int64_t samples = 0;
    LossTotals totals{};
    // Factor: the weight, before it is divided.
    std::vector<ps::Term> terms{};
    std::vector<std::pair<int, int64_t>> samples_of{};
  };

  bool is_sync() const;
  void give_back(int id, Member& member);
  void send_end(int id, Member& member);
  int64_t min_clock() const;
  int depth() const;
  bool may_start(const Member& member) const;
  Portion portion_for(int id, const Member& member) const;
  std::map<int, int64_t> shares(int64_t samples) const;
  double rate(int64_t samples) const;

  void pump();
  bool grant_one();
  void grant(int id, Member& member, const SamplePart& part);
  void serve(int id, Member& member);
  void open_batch();
  void share_batch();
  void close_batch();
  void apply_round(double squares);
  void decide(int id, Member& member, const Ticket& ticket,
              const ps::Push& push);
  // `tau`: the staleness.
  void accept(int id, Member& member, const Ticket& ticket,
              const ps::Push& push, int64_t tau);
  void apply(double lr, double scale, int worker, int64_t version);
  int64_t staleness(const Member& member, int64_t version) const;
  void check_finite(const Ticket& ticket, const ps::Push& push);
  bool idle() const;
  void finish();
  void check_done();

  PsPlan plan_;
  SampleQueue queue_;
  int64_t batch_size_;
  Stage stage_ = Stage::gathering;
  std::map<int, Member> members_;
  PsSpeeds speeds_;  // also of those of the step before that are yet to come
  Round round_;
  int64_t tickets_ = 0;
  int64_t version_ = 0;
  int64_t updates_;
  int64_t position_;
  LossTotals totals_;
  PsFigures figures_;
  std::string diverged_;
  PsActions actions_;
};

}  // namespace dtune
