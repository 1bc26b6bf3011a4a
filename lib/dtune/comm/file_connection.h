// A FileClient's connection: asks, waits, and connects anew when nothing comes.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "dtune/comm/file_client.h"
#include "dtune/comm/file_protocol.h"
#include "dtune/comm/socket.h"

namespace dtune::files {

// Thrown by receive(): what is under way is lost or void; ask again.
struct StartOver {};

// Not thread-safe.
class FileConnection {
 public:
  explicit FileConnection(const FileAccess& access) : access_(access) {}

  // From now on answers to earlier requests are dropped. The number to send
  // with the next ones. `stop` must outlive what follows.
  uint64_t begin(const std::atomic<bool>& stop);
  // Queued until it can be sent.
  void send(Message message);
  // The next answer to the request that begin() returned. Throws StartOver,
  // TransferStopped, Error(temporary) after the patience is spent, Error(comm)
  // where answers are damaged again and again.
  Message receive();
  // Something was got done: patience begins anew.
  void progressed();

  // What a refusal means for the caller: StartOver or an Error.
  [[noreturn]] void refused(const Refused& refusal);
  // Throws StartOver, or Error(comm) where this happens again and again.
  [[noreturn]] void failed(const std::string& what);

 private:
  static constexpr int kMostFailures = 10;  // in a row, without progress

  std::optional<Message> next();
  void flush();
  void connect();
  void wait();

  const FileAccess access_;
  SocketContext context_;
  std::optional<Socket> socket_;
  std::deque<Frames> outbox_;
  const std::atomic<bool>* stop_ = nullptr;
  uint64_t request_ = 0;
  int failures_ = 0;
  MonoTime heard_{};
  MonoTime progress_{};
};

}  // namespace dtune::files
