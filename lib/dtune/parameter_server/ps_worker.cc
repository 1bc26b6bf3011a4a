#include "dtune/parameter_server/ps_worker.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/parameter_server/ps_endpoint.h"
#include "dtune/parameter_server/ps_rules.h"

namespace dtune {
namespace {

constexpr Duration kHelloAgain = std::chrono::milliseconds(200);
constexpr Duration kPollInterval = std::chrono::milliseconds(50);
// For newer weights than those at hand, as a share of the time that the last
// gradient took.
constexpr double kFreshPatience = 0.3;

uint64_t fresh_nonce() {
  std::random_device device;
  const uint64_t high = device();
  return (high << 32 | device()) | 1;
}

// Floats that fit into `to` at `offset`.
void take_floats(const ps::Piece& piece, std::span<float> to) {
  const size_t size = piece.floats.size() / sizeof(float);
  if (piece.offset < 0 || size > to.size() ||
      static_cast<uint64_t>(piece.offset) > to.size() - size) {
    return;
  }
  ps::copy_floats(piece.floats,
                  to.subspan(static_cast<size_t>(piece.offset), size));
}

}  // namespace

PsWorker::PsWorker(const SocketContext& context, PsWorkerOptions options)
    : options_(std::move(options)),
      layout_(options_.parameters, static_cast<int>(options_.servers.size())),
      cache_(options_.train, layout_, options_.runs),
      nonce_(fresh_nonce()) {
  connect(context);
  say_hello();
}

void PsWorker::connect(const SocketContext& context) {
  for (const PsAddress& address : options_.servers) {
    SocketOptions options;
    options.client = address.security;
    auto socket =
        std::make_unique<Socket>(context, Socket::Kind::dealer, options);
    socket->connect(address.endpoint);
    servers_.push_back({std::move(socket), system_clock().now()});
  }
}

// A request that is lost is repeated until there is work.
void PsWorker::say_hello() {
  greeted_ = system_clock().now();
  const Frames hello = ps::encode(
      ps::Hello{nonce_, options_.step, options_.member, options_.parameters});
  for (const Server& server : servers_) server.socket->send(hello);
}

void PsWorker::send(int server, const ps::Message& message) {
  if (servers_[static_cast<size_t>(server)].socket->send(ps::encode(message))) {
    return;
  }
  throw Error(ErrorKind::comm,
              fmt::format("parameter server {} does not take what member {} "
                          "sends (is it alive?)",
                          server, options_.member));
}

// ---- Waiting

void PsWorker::wait_until(const std::function<bool()>& done,
                          const std::function<std::vector<int>()>& awaited) {
  const MonoTime since = system_clock().now();
  receive_all();
  while (!done()) {
    PollSet polls;
    for (const Server& server : servers_) polls.add(*server.socket);
    polls.wait(ahead() ? kPollInterval / 25 : kPollInterval);
    receive_all();
    if (options_.while_waiting) options_.while_waiting();
    if (session_ == 0 && system_clock().now() - greeted_ > kHelloAgain) {
      say_hello();
    }
    check_silence(since, awaited());
  }
  reads_.waited += to_seconds(system_clock().now() - since);
}

void PsWorker::check_silence(MonoTime since,
                             const std::vector<int>& awaited) const {
  const MonoTime now = system_clock().now();
  for (const int server : awaited) {
    const MonoTime heard =
        std::max(since, servers_[static_cast<size_t>(server)].heard);
    if (now - heard < options_.patience) continue;
    throw Error(ErrorKind::comm,
                fmt::format("parameter server {} has been silent for {:.0f} s",
                            server, to_seconds(now - heard)));
  }
}

void PsWorker::receive_all() {
  for (size_t i = 0; i < servers_.size(); ++i) {
    while (auto frames = servers_[i].socket->receive()) {
      const auto message = ps::try_decode(*frames);
      if (!message) continue;
      const uint64_t session = ps::session_of(*message);
      if (session_ == 0) session_ = session;  // the sockets are of this step
      if (session != session_) continue;
      servers_[i].heard = system_clock().now();
      handle(static_cast<int>(i), *message);
    }
  }
}

void PsWorker::handle(int server, const ps::Message& message) {
  if (const auto* piece = std::get_if<ps::Piece>(&message)) {
    take_piece(server, *piece);
  } else if (const auto* served = std::get_if<ps::Served>(&message)) {
    cache_.served(server, *served);
  } else if (std::holds_alternative<ps::State>(message)) {
    servers_[static_cast<size_t>(server)].has_state = true;
  } else if (const auto* broken = std::get_if<ps::Broken>(&message)) {
    throw_broken(*broken);
  } else if (server != 0) {
    return;
  } else if (const auto* grant = std::get_if<ps::Grant>(&message)) {
    grants_.push_back(*grant);
  } else if (std::holds_alternative<ps::Finish>(message)) {
    finishing_ = true;
  } else if (const auto* final = std::get_if<ps::Final>(&message)) {
    final_ = *final;
  }
}

void PsWorker::take_piece(int server, const ps::Piece& piece) {
  switch (piece.content) {
    case ps::Content::weights:
      cache_.receive(server, piece);
      break;
    case ps::Content::buffers:
      take_floats(piece, buffers_);
      break;
    case ps::Content::first:
      take_floats(piece, first_);
      break;
    case ps::Content::second:
      take_floats(piece, second_);
      break;
    case ps::Content::gradient:
      break;
  }
}

// ---- Work

bool PsWorker::ahead() const {
  return options_.spec.consistency == Consistency::ssp &&
         options_.spec.bound >= 1;
}

// Fresh weights at once; those at hand, if they are within the bound, once the
// fresh ones have kept it waiting for a while.
bool PsWorker::usable(const ps::Grant& grant, MonoTime since) const {
  if (cache_.version() < 0) return false;
  if (!ahead()) return cache_.version() >= grant.version;
  if (cache_.ticket() >= pushed_) return true;
  if (cache_.full()) return false;
  if (cache_.min_clock() < grant.clock - options_.spec.bound) return false;
  const double waited = to_seconds(system_clock().now() - since);
  return waited >= kFreshPatience * compute_seconds_;
}

// Server 0 sends a message every second, the others only when asked.
std::vector<int> PsWorker::awaited_for(int64_t version) const {
  std::vector<int> servers = cache_.missing(version);
  if (servers.empty()) servers = {0};
  return servers;
}

std::optional<ps::Grant> PsWorker::next(std::span<float> weights) {
  const MonoTime since = system_clock().now();
  wait_until(
      [&] {
        return grants_.empty() ? finishing_ : usable(grants_.front(), since);
      },
      [&]() -> std::vector<int> {
        return awaited_for(grants_.empty() ? -1 : grants_.front().version);
      });
  if (grants_.empty()) return std::nullopt;
  working_ = grants_.front();
  grants_.pop_front();
  ++reads_.all;
  if (cache_.ticket() < pushed_ && ahead()) ++reads_.cached;
  used_version_ = cache_.version();
  cache_.read(weights);
  return working_;
}

void PsWorker::push(std::span<const float> gradient, const LossTotals& totals,
                    double seconds) {
  DTUNE_CHECK(working_.has_value());
  const ps::Grant work = *std::exchange(working_, std::nullopt);
  const ps::Push push{.session = session_,
                      .ticket = work.ticket,
                      .version = used_version_,
                      .totals = totals,
                      .squares = sum_of_squares(gradient),
                      .seconds = seconds};
  for (int server = 0; server < layout_.servers(); ++server) {
    for (const ps::Range& range : layout_.pieces(server)) {
      send(server, ps::Piece{.session = session_,
                             .content = ps::Content::gradient,
                             .key = work.ticket,
                             .offset = range.begin,
                             .floats = ps::bytes_of(gradient.subspan(
                                 static_cast<size_t>(range.begin),
                                 static_cast<size_t>(range.size())))});
    }
    send(server, push);
  }
  pushed_ = work.ticket;
  compute_seconds_ = seconds;
  if (ahead()) remember(work, push, gradient);
}

// Delay compensation is by the weights that the server knows to have been used:
// those that it sent, without updates of which this worker alone knows.
void PsWorker::remember(const ps::Grant& work, const ps::Push& push,
                        std::span<const float> gradient) {
  if (options_.spec.compensation != Compensation::none) {
    return cache_.sent(work.ticket);
  }
  const double weight =
      push.totals.weight / static_cast<double>(std::max<int64_t>(work.size, 1));
  cache_.wrote(work.ticket, gradient, work.lr * weight,
               clip_scale(options_.train.clip_norm, push.squares));
}

// ---- The step's end

ps::Final PsWorker::finish(std::span<float> weights, std::span<float> buffers) {
  const ps::Layout layout(std::ssize(buffers), 1);
  for (const ps::Range& range : layout.pieces(0)) {
    send(0, ps::Piece{.session = session_,
                      .content = ps::Content::buffers,
                      .offset = range.begin,
                      .floats = ps::bytes_of(
                          buffers.subspan(static_cast<size_t>(range.begin),
                                          static_cast<size_t>(range.size())))});
  }
  send(0, ps::Buffers{session_});
  buffers_ = buffers;
  wait_until([&] { return final_ && cache_.version() >= final_->version; },
             [&]() -> std::vector<int> {
               if (!final_) return {0};
               return cache_.missing(final_->version);
             });
  buffers_ = {};
  cache_.read(weights);
  return *final_;
}

void PsWorker::fetch_state(std::span<float> first, std::span<float> second) {
  first_ = first;
  second_ = second;
  for (Server& server : servers_) server.has_state = false;
  for (int i = 0; i < layout_.servers(); ++i) send(i, ps::WantState{session_});
  const auto missing = [this] {
    std::vector<int> silent;
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (!servers_[i].has_state) silent.push_back(static_cast<int>(i));
    }
    return silent;
  };
  wait_until([&] { return missing().empty(); }, missing);
  first_ = {};
  second_ = {};
}

}  // namespace dtune
