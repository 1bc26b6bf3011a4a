#include "dtune/comm/file_connection.h"

#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune::files {
namespace {

constexpr Duration kConnectionLook =
    std::chrono::milliseconds(50);  // for `stop`

}  // namespace

uint64_t FileConnection::begin(const std::atomic<bool>& stop) {
  if (stop_ == nullptr) progressed();
  stop_ = &stop;
  outbox_.clear();
  heard_ = system_clock().now();
  return ++request_;
}

void FileConnection::progressed() {
  progress_ = system_clock().now();
  failures_ = 0;
}

void FileConnection::send(Message message) {
  outbox_.push_back(encode(std::move(message)));
  flush();
}

void FileConnection::flush() {
  if (!socket_) connect();
  while (!outbox_.empty() && socket_->send(outbox_.front())) {
    outbox_.pop_front();
  }
}

// A new socket: what was queued in the old one is void.
void FileConnection::connect() {
  SocketOptions options;
  options.queue = 4 * kWindow;
  options.client = access_.curve;
  socket_.emplace(context_, Socket::Kind::dealer, options);
  socket_->connect(access_.endpoint);
}

Message FileConnection::receive() {
  while (true) {
    if (*stop_) throw TransferStopped();
    flush();
    if (auto message = next()) return std::move(*message);
    const MonoTime now = system_clock().now();
    if (now - progress_ > access_.patience) {
      throw Error(
          ErrorKind::temporary,
          fmt::format("{}: the coordinator's file server has not "
                      "answered for {}",
                      access_.endpoint, format_duration(access_.patience)));
    }
    if (now - heard_ > access_.silence) {
      socket_.reset();
      throw StartOver();
    }
    wait();
  }
}

// The next answer that is here and meant.
std::optional<Message> FileConnection::next() {
  while (auto frames = socket_->receive()) {
    heard_ = system_clock().now();
    Message message;
    try {
      message = decode(*frames);
    } catch (const Error& e) {
      failed(e.what());
    }
    if (request_of(message) == request_) return message;
  }
  return std::nullopt;
}

void FileConnection::wait() {
  PollSet polls;
  polls.add(*socket_);
  polls.wait(outbox_.empty() ? kConnectionLook : kConnectionLook / 10);
}

void FileConnection::failed(const std::string& what) {
  if (++failures_ < kMostFailures) throw StartOver();
  throw Error(ErrorKind::comm, fmt::format("{}: {}", access_.endpoint, what));
}

void FileConnection::refused(const Refused& refusal) {
  switch (refusal.why) {
    case Why::changed:
      failed(refusal.text);
    case Why::full:
      throw Error(ErrorKind::temporary,
                  fmt::format("the coordinator's disk is full: {} (free some "
                              "space there)",
                              refusal.text));
    case Why::missing:
    case Why::forbidden:
    case Why::failed:
      break;
  }
  throw Error(ErrorKind::comm, fmt::format("{}: the coordinator refuses: {}",
                                           access_.endpoint, refusal.text));
}

}  // namespace dtune::files
