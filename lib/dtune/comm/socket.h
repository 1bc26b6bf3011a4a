// ZeroMQ sockets of the control plane, as dtune uses them: nothing blocks,
// messages are lists of frames, every failure is an Error.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/comm/curve.h"
#include "dtune/comm/wakeup.h"
#include "dtune/wire/frames.h"

namespace dtune {

class ZapServer;

// One per process part; must outlive its sockets. Closing waits at most for the
// sockets' linger time.
class SocketContext {
 public:
  SocketContext();
  ~SocketContext();
  SocketContext(const SocketContext&) = delete;
  SocketContext& operator=(const SocketContext&) = delete;
  void* handle() const { return handle_; }
  // Answers for the sockets that have SocketOptions::server; started at the
  // first call. Thread-safe.
  ZapServer& zap() const;

 private:
  void* handle_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<ZapServer> zap_;
};

// Of a socket that reaches beyond this machine if it is a server or a client of
// CURVE: it then has heartbeats of its own, so that a connection that died
// without a word is noticed within kDeadConnection and made anew, and a client
// queues nothing before it is connected.
struct SocketOptions {
  size_t max_message_bytes = wire::kMaxFrameBytes;  // more: closes it
  int queue = 100'000;                              // messages, each way
  std::optional<CurveServer> server;
  std::optional<CurveClient> client;
};

// Owned by one thread. A router puts the peer's identity before the frames of
// what it receives, and requires it in what it sends.
class Socket {
 public:
  enum class Kind { router, dealer };

  Socket(const SocketContext& context, Kind kind,
         const SocketOptions& options = {});
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Throw Error(comm), Error(temporary) where the address is taken (with who
  // has it, where that can be seen), and Error(config) where an ipc path is
  // longer than the system allows.
  void bind(const std::string& endpoint);
  void connect(const std::string& endpoint);
  // The address bound, with the port that the system chose for "tcp://*:0".
  std::string bound_endpoint() const;

  // All frames or none; does not block. False where the peer is gone or its
  // queue is full.
  bool send(std::span<const std::string> frames);
  // The next message, if one is here.
  std::optional<Frames> receive();
  // Who sent what receive() returned last: the public key that it proved to
  // have; "" where this is no CURVE server.
  const std::string& sender() const { return sender_; }
  // The descriptor of the connection that this came over; -1 where sender() is
  // "". It may be closed, or another's, by now.
  int source() const { return source_; }

  void* handle() const { return handle_; }

  static constexpr int kLingerMs = 500;
  // A lease's length by default: shorter silences are left to TCP.
  static constexpr Duration kDeadConnection = std::chrono::seconds(15);

 private:
  void set_curve(const SocketOptions& options);

  void* handle_;
  std::string sender_;
  int source_ = -1;
};

// Waits for sockets and file descriptors.
class PollSet {
 public:
  void clear() { entries_.clear(); }
  // Return the index for ready().
  size_t add(const Socket& socket);
  size_t add(int descriptor);
  // Until one is ready, a signal arrives, or `timeout` is over (rounded up to
  // milliseconds).
  void wait(Duration timeout);
  bool ready(size_t index) const { return entries_[index].ready; }

 private:
  struct Entry {
    void* socket = nullptr;
    int descriptor = -1;
    bool ready = false;
  };
  std::vector<Entry> entries_;
};

// Throws Error(config) where the path of an "ipc://" endpoint does not fit a
// socket address (107 bytes); does nothing for other endpoints.
void check_endpoint(const std::string& endpoint);

// A fresh folder that only this user can enter, with a path short enough for
// sockets: in $XDG_RUNTIME_DIR, the temporary folder or /tmp. Removed with what
// is in it when this is destroyed; folders of processes that were killed are
// removed when the next one is made.
class SocketDirectory {
 public:
  SocketDirectory();
  ~SocketDirectory();
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;
  // "ipc://<folder>/<name>"
  std::string endpoint(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace dtune
