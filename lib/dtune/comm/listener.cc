#include "dtune/comm/listener.h"

#include <utility>

namespace dtune {
namespace {

constexpr char kLocal = 'l';
constexpr char kRemote = 'r';

std::optional<Frames> receive_from(std::optional<Socket>& socket, char mark) {
  if (!socket) return std::nullopt;
  auto frames = socket->receive();
  if (frames) frames->front().insert(frames->front().begin(), mark);
  return frames;
}

}  // namespace

Listener::Listener(const SocketContext& context, const ListenOptions& options) {
  if (!options.local.empty()) {
    local_.emplace(context, Socket::Kind::router, options.max_message_bytes);
    local_->bind(options.local);
  }
  if (!options.remote.empty()) {
    remote_.emplace(context, Socket::Kind::router, options.max_message_bytes);
    remote_->bind(options.remote);
  }
}

void Listener::add_to(PollSet& polls) const {
  if (local_) polls.add(*local_);
  if (remote_) polls.add(*remote_);
}

std::optional<Frames> Listener::receive() {
  remote_first_ = !remote_first_;
  auto first = remote_first_ ? receive_from(remote_, kRemote)
                             : receive_from(local_, kLocal);
  if (first) return first;
  return remote_first_ ? receive_from(local_, kLocal)
                       : receive_from(remote_, kRemote);
}

bool Listener::send(Frames frames) {
  const char mark = frames.front().front();
  frames.front().erase(0, 1);
  std::optional<Socket>& socket = mark == kLocal ? local_ : remote_;
  return socket && socket->send(frames);
}

std::string Listener::local_endpoint() const {
  return local_ ? local_->bound_endpoint() : "";
}

std::string Listener::remote_endpoint() const {
  return remote_ ? remote_->bound_endpoint() : "";
}

}  // namespace dtune
