#include "dtune/comm/listener.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/comm/endpoint.h"

namespace dtune {
namespace {

constexpr char kLocal = 'l';
constexpr char kRemote = 'r';

// What has come while a server was held up for a while is read by then; and
// short against what servers take for having been held up.
constexpr Duration kTurn = std::chrono::milliseconds(200);
constexpr int kMostDropped = 1000;  // in one go

void check_local(const std::string& endpoint) {
  if (is_local_endpoint(endpoint)) return;
  throw Error(ErrorKind::config,
              fmt::format("{}: is not an address of this machine alone (use "
                          "ipc:// or tcp://127.0.0.1:0; others join over the "
                          "remote address)",
                          endpoint));
}

std::optional<Frames> marked(std::optional<Frames> frames, char mark) {
  if (frames) frames->front().insert(frames->front().begin(), mark);
  return frames;
}

// A port of the range that this process may use, where none is given.
void bind_in_range(Socket& socket, const std::string& endpoint) {
  auto tcp = parse_tcp(endpoint);
  const PortRange range = allowed_ports();
  if (!tcp || tcp->port != 0 || range.first == 0) return socket.bind(endpoint);
  for (tcp->port = range.first; tcp->port < range.last; ++tcp->port) {
    try {
      return socket.bind(tcp->text());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::temporary) throw;
    }
  }
  socket.bind(tcp->text());
}

}  // namespace

Listener::Listener(const SocketContext& context, const ListenOptions& options) {
  if (!options.local.empty()) {
    check_local(options.local);
    local_.emplace(
        context, Socket::Kind::router,
        SocketOptions{.max_message_bytes = options.max_message_bytes});
    local_->bind(options.local);
  }
  if (options.remote.empty()) return;
  const TcpEndpoint endpoint =
      checked_remote(options.remote, options.security.has_value());
  SocketOptions socket;
  socket.max_message_bytes = options.max_message_bytes;
  socket.queue = options.remote_queue;
  std::string bound = endpoint.text();
  if (const auto& security = options.security) {
    allowed_ =
        security->allowed ? security->allowed : std::make_shared<AllowList>();
    enrolment_ = security->enrolment;
    gateway_ = security->gateway;
    if (!gateway_) {
      gateway_ = std::make_shared<Gateway>(
          GatewayOptions{.endpoint = bound, .ports = allowed_ports()});
    }
    bound = gateway_->add_server(security->keys.secret_key);
    socket.server =
        CurveServer{security->keys.secret_key,
                    context.zap().add(allowed_, gateway_, enrolment_)};
  }
  remote_.emplace(context, Socket::Kind::router, socket);
  bind_in_range(*remote_, bound);
  if (gateway_ && !options.security->gateway) gateway_->open();
}

void Listener::add_to(PollSet& polls) const {
  if (local_) polls.add(*local_);
  if (remote_) polls.add(*remote_);
}

std::optional<Frames> Listener::receive() {
  remote_first_ = !remote_first_;
  for (const bool remote : {remote_first_, !remote_first_}) {
    auto frames = remote   ? receive_remote()
                  : local_ ? marked(local_->receive(), kLocal)
                           : std::nullopt;
    if (!frames) continue;
    heard_remote_ = remote;
    return frames;
  }
  return std::nullopt;
}

std::optional<Frames> Listener::receive_remote() {
  if (!remote_) return std::nullopt;
  for (int dropped = 0; dropped < kMostDropped; ++dropped) {
    auto frames = remote_->receive();
    if (!frames) break;
    if (allowed_ && !allowed_->contains(remote_->sender())) {
      answer_enrolment(*frames);
      continue;
    }
    if (gateway_) gateway_->heard(remote_->source(), remote_->sender());
    return marked(std::move(frames), kRemote);
  }
  return std::nullopt;
}

void Listener::answer_enrolment(const Frames& frames) {
  const std::string& key = remote_->sender();
  if (frames.size() != 2 || !enrolment_ || !enrolment_->admits(key)) return;
  // To its gateway it stays unknown.
  if (gateway_) gateway_->heard(remote_->source(), "");
  const std::string answer = enrolment_->answer(key, frames[1]);
  if (!answer.empty()) remote_->send(Frames{frames[0], answer});
}

bool Listener::receive_all(const std::function<void(Frames)>& handle) {
  const MonoTime end = system_clock().now() + kTurn;
  while (auto frames = receive()) {
    handle(std::move(*frames));
    if (system_clock().now() >= end) return false;
  }
  return true;
}

const std::string& Listener::sender() const {
  static const std::string none;
  return heard_remote_ ? remote_->sender() : none;
}

bool Listener::send(Frames frames) {
  const char mark = frames.front().front();
  frames.front().erase(0, 1);
  std::optional<Socket>& socket = mark == kLocal ? local_ : remote_;
  return socket && socket->send(frames);
}

std::vector<std::string> Listener::take_notices() {
  return gateway_ ? gateway_->take_notices() : std::vector<std::string>();
}

std::string Listener::local_endpoint() const {
  return local_ ? local_->bound_endpoint() : "";
}

std::string Listener::remote_endpoint() const {
  if (gateway_) return gateway_->endpoint();
  return remote_ ? remote_->bound_endpoint() : "";
}

bool Listener::is_local(const std::string& peer) {
  return peer.starts_with(kLocal);
}

}  // namespace dtune
