#include "dtune/comm/monitor.h"

#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <zmq.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr int kEvents =
    ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
    ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
    ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED;

// The event's number, or 0 where there is none. The second frame is an address.
uint16_t next_event(void* events) {
  uint16_t event = 0;
  bool more = true;
  for (bool first = true; more; first = false) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, events, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&part);
      return 0;
    }
    if (first && zmq_msg_size(&part) >= sizeof event) {
      std::memcpy(&event, zmq_msg_data(&part), sizeof event);
    }
    more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
  }
  return event;
}

std::optional<ConnectionEvent> meaning_of(uint16_t event) {
  switch (event) {
    case ZMQ_EVENT_CONNECT_RETRIED:
      return ConnectionEvent::unreachable;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return ConnectionEvent::established;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return ConnectionEvent::denied;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return ConnectionEvent::mismatched;
    case ZMQ_EVENT_DISCONNECTED:
      return ConnectionEvent::broken;
    default:
      return std::nullopt;
  }
}

}  // namespace

ConnectionMonitor::ConnectionMonitor(const SocketContext& context,
                                     const Socket& socket)
    : socket_(socket.handle()),
      events_(zmq_socket(context.handle(), ZMQ_PAIR)) {
  const std::string endpoint = fmt::format("inproc://monitor-{}", socket_);
  const int no_linger = 0;
  if (events_ == nullptr ||
      zmq_setsockopt(events_, ZMQ_LINGER, &no_linger, sizeof no_linger) != 0 ||
      zmq_socket_monitor(socket_, endpoint.c_str(), kEvents) != 0 ||
      zmq_connect(events_, endpoint.c_str()) != 0) {
    const std::string why = zmq_strerror(zmq_errno());
    if (events_ != nullptr) zmq_close(events_);
    throw Error(ErrorKind::comm, "ZeroMQ monitor: " + why);
  }
}

ConnectionMonitor::~ConnectionMonitor() {
  zmq_socket_monitor(socket_, nullptr, 0);
  zmq_close(events_);
}

std::vector<ConnectionEvent> ConnectionMonitor::take() {
  std::vector<ConnectionEvent> out;
  while (const uint16_t event = next_event(events_)) {
    if (const auto meaning = meaning_of(event)) out.push_back(*meaning);
  }
  return out;
}

}  // namespace dtune
