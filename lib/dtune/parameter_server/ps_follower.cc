#include "dtune/parameter_server/ps_follower.h"

#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr Duration kFollowAgain = std::chrono::milliseconds(200);

template <class T>
constexpr bool kIsOrder =
    std::is_same_v<T, ps::Combine> || std::is_same_v<T, ps::Apply> ||
    std::is_same_v<T, ps::Drop> || std::is_same_v<T, ps::Serve> ||
    std::is_same_v<T, ps::Forget>;

}  // namespace

PsFollower::PsFollower(const SocketContext& context,
                       const PsServerOptions& options)
    : context_(context), options_(options), endpoint_(context, options.listen) {
  DTUNE_CHECK(options.server0.has_value());
}

// A new socket: nothing of the step before comes over it.
void PsFollower::connect() {
  SocketOptions options;
  options.client = options_.server0->security;
  leader_.emplace(context_, Socket::Kind::dealer, options);
  leader_->connect(options_.server0->endpoint);
}

void PsFollower::begin(const PsStep& step) {
  step_ = step.step;
  parameters_ = std::ssize(step.arrays.weights);
  shard_.emplace(step.plan.train, step.plan.parallel.ps,
                 ps::Layout(parameters_, options_.servers), options_.server,
                 step.arrays);
  session_ = 0;
  sequence_ = 0;
  workers_.clear();
  wants_state_.clear();
  endpoint_.forget_all();
  result_.reset();
  connect();
  heard_ = system_clock().now();
  follow();
  for (const PsRequest& greeting : endpoint_.take_kept())
    handle_worker(greeting);
}

void PsFollower::follow() {
  followed_ = system_clock().now();
  report_to_leader(ps::Follow{step_, options_.server, parameters_});
}

// What is lost is missed by server 0.
void PsFollower::report_to_leader(const ps::Message& message) {
  leader_->send(ps::encode(message));
}

void PsFollower::poll(Duration timeout) {
  if (!shard_) return;
  PollSet polls;
  endpoint_.add_to(polls);
  polls.add(*leader_);
  polls.wait(timeout);
  // Orders between any two messages of workers: those never end where there are
  // many, and gradients that wait for orders fill the memory.
  receive_orders();
  endpoint_.receive_all([this](const PsRequest& request) {
    handle_worker(request);
    receive_orders();
  });
  const MonoTime now = system_clock().now();
  if (session_ == 0 && now - followed_ > kFollowAgain) follow();
  if (now - heard_ > options_.patience && !trained()) {
    throw Error(ErrorKind::comm,
                fmt::format("parameter server {}: server 0 has been silent for "
                            "{:.0f} s",
                            options_.server, to_seconds(now - heard_)));
  }
}

void PsFollower::receive_orders() {
  while (auto frames = leader_->receive()) {
    if (const auto message = ps::try_decode(*frames)) handle_lead(*message);
  }
}

void PsFollower::hear(const PsRequest& request, const ps::Hello& hello) {
  if (hello.step > step_) endpoint_.keep(request);
  if (hello.step != step_ || hello.parameters != parameters_) return;
  endpoint_.know(hello.member, request.peer);
  workers_[hello.member] = hello.nonce;
  present(hello.member, hello.nonce);
}

void PsFollower::present(int member, uint64_t nonce) {
  if (session_ == 0) return;  // sent once it is known
  report_to_leader(ps::Present{session_, nonce, member});
}

void PsFollower::handle_worker(const PsRequest& request) {
  if (const auto* hello = std::get_if<ps::Hello>(&request.message)) {
    hear(request, *hello);
    return;
  }
  const int member = endpoint_.member_of(request.peer);
  if (member < 0 || ps::session_of(request.message) != session_) return;
  if (const auto* piece = std::get_if<ps::Piece>(&request.message)) {
    if (piece->content == ps::Content::gradient) {
      shard_->receive(member, *piece);
    }
  } else if (const auto* push = std::get_if<ps::Push>(&request.message)) {
    if (shard_->complete(member, push->ticket)) {
      report_to_leader(ps::Arrived{session_, member, push->ticket});
    }
  } else if (std::holds_alternative<ps::WantState>(request.message)) {
    wants_state_.push_back(member);
    send_states();
  }
}

// A worker may hear of the end from server 0, and ask before it is known here.
void PsFollower::send_states() {
  if (!trained()) return;
  for (const int member : wants_state_) {
    endpoint_.send_state(member, *shard_, session_);
    ++states_;
  }
  wants_state_.clear();
}

void PsFollower::handle_lead(const ps::Message& message) {
  if (const auto* leader = std::get_if<ps::Lead>(&message)) {
    if (leader->step != step_ || session_ == leader->session) return;
    heard_ = system_clock().now();
    session_ = leader->session;
    for (const auto& [member, nonce] : workers_) present(member, nonce);
    return;
  }
  if (session_ == 0 || ps::session_of(message) != session_) return;
  heard_ = system_clock().now();
  if (const auto* final = std::get_if<ps::Final>(&message)) {
    result_ = *final;
    send_states();
  } else if (const auto* broken = std::get_if<ps::Broken>(&message)) {
    throw_broken(*broken);
  } else {
    std::visit(
        [this](const auto& order) {
          if constexpr (kIsOrder<std::decay_t<decltype(order)>>) obey(order);
        },
        message);
  }
}

template <class Order>
void PsFollower::obey(const Order& order) {
  if (order.sequence <= sequence_) return;  // once more
  if (order.sequence != sequence_ + 1) {
    throw Error(
        ErrorKind::comm,
        fmt::format("parameter server {}: orders {} to {} were lost",
                    options_.server, sequence_ + 1, order.sequence - 1));
  }
  sequence_ = order.sequence;
  execute(order);
}

void PsFollower::execute(const ps::Combine& order) {
  const double squares = shard_->combine(order);
  if (order.wants_squares) {
    report_to_leader(ps::Combined{session_, order.sequence, squares});
  }
}

void PsFollower::execute(const ps::Serve& order) {
  shard_->serve(order);
  endpoint_.serve(*shard_, order);
}

}  // namespace dtune
