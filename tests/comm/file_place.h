// A folder with a FileServer in it, and those who use it.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/comm/file_client.h"
#include "dtune/comm/file_parts.h"
#include "dtune/comm/file_protocol.h"
#include "dtune/comm/file_server.h"

namespace dtune::place {

namespace fs = std::filesystem;

using std::chrono::milliseconds;
using std::chrono::seconds;

inline const std::atomic<bool> kNever{false};

inline std::string random_bytes(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t value = rng();
    std::memcpy(bytes.data() + i, &value, sizeof value);
  }
  return bytes;
}

// A folder with a server on a local socket in it.
struct Place {
  TemporaryDirectory folder;
  SocketDirectory sockets;
  std::unique_ptr<FileServer> server;

  Place() { restart(); }
  void restart() {
    server.reset();
    server = std::make_unique<FileServer>(
        ListenOptions{.local = sockets.endpoint("files")});
  }
  fs::path path(const std::string& name) const { return folder.path() / name; }
  fs::path write(const std::string& name, const std::string& bytes) {
    write_file_atomic(path(name), bytes, false);
    return path(name);
  }
  FileAccess access() const {
    FileAccess out;
    out.endpoint = sockets.endpoint("files");
    out.node = "here";
    out.patience = seconds(90);
    return out;
  }
  // What is left of transfers under way.
  int parts() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      count += entry.path().extension() == ".part" ? 1 : 0;
    }
    return count;
  }
};

inline ErrorKind kind_of(const std::function<void()>& what,
                         std::string* text = {}) {
  try {
    what();
  } catch (const Error& e) {
    if (text != nullptr) *text = e.what();
    return e.kind();
  }
  return ErrorKind::internal;
}

// Speaks the protocol by hand.
struct Stranger {
  SocketContext context;
  Socket socket{context, Socket::Kind::dealer};
  explicit Stranger(const std::string& endpoint) { socket.connect(endpoint); }

  void say(const Frames& frames) { REQUIRE(socket.send(frames)); }
  // By the time of the answer the server has dealt with all that was said
  // before. Answers to other requests are dropped.
  files::Message ask(const files::Message& message) {
    say(files::encode(message));
    const auto end = std::chrono::steady_clock::now() + seconds(90);
    while (std::chrono::steady_clock::now() < end) {
      const auto frames = socket.receive();
      if (!frames) {
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      files::Message answer = files::decode(*frames);
      if (files::request_of(answer) == files::request_of(message))
        return answer;
    }
    FAIL("no answer");
    return {};
  }
};

// A process that fetches and is gone when it is killed.
class Fetcher {
 public:
  Fetcher(const FileAccess& access, const std::string& name,
          const fs::path& to) {
    pid_ = fork();
    if (pid_ != 0) return;
    try {
      FileClient client(access);
      _exit(client.download(name, to, kNever) ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  ~Fetcher() {
    if (pid_ > 0) end(SIGKILL);
  }
  void kill_now() { end(SIGKILL); }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  void end(int signal) {
    kill(pid_, signal);
    wait();
  }
  pid_t pid_ = 0;
};

}  // namespace dtune::place
