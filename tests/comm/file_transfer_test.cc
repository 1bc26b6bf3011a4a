// FileClient against FileServer: real sockets, real files, real processes.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/comm/file_client.h"
#include "dtune/comm/file_parts.h"
#include "dtune/comm/file_protocol.h"
#include "dtune/comm/file_server.h"

using namespace dtune;  // NOLINT: a test
namespace fs = std::filesystem;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::atomic<bool> kNever{false};

std::string random_bytes(size_t size, uint64_t seed) {
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
    out.silence = milliseconds(500);
    out.patience = seconds(30);
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

ErrorKind kind_of(const std::function<void()>& what, std::string* text = {}) {
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
  Socket socket{context, Socket::Kind::dealer, files::kMaxFrameBytes};
  explicit Stranger(const std::string& endpoint) { socket.connect(endpoint); }

  void say(const Frames& frames) { socket.send(frames); }
  files::Message ask(const files::Message& message) {
    say(files::encode(message));
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      if (auto frames = socket.receive()) return files::decode(*frames);
      std::this_thread::sleep_for(milliseconds(1));
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

}  // namespace

TEST_CASE("files of all sizes arrive as they are") {
  Place place;
  FileClient client(place.access());
  for (const size_t size :
       {size_t{0}, size_t{1}, files::kChunkBytes, files::kChunkBytes + 1,
        5 * files::kChunkBytes - 3, 20 * files::kChunkBytes}) {
    const std::string bytes = random_bytes(size, size);
    place.server->share("data", {.path = place.write("there", bytes)});
    CHECK(client.download("data", place.path("here"), kNever));
    CHECK(read_file(place.path("here")) == bytes);
    place.server->share("checkpoint/1",
                        {.path = place.path("up"), .ticket = 3});
    client.upload("checkpoint/1", 3, place.path("here"), kNever);
    CHECK(read_file(place.path("up")) == bytes);
    CHECK(client.find("checkpoint/1", kNever)->size == size);
    place.server->withdraw("checkpoint/1");
  }
  CHECK(place.parts() == 0);
}

TEST_CASE("a file that is not there is no error") {
  Place place;
  place.server->share("checkpoint/1", {.path = place.path("none")});
  FileClient client(place.access());
  CHECK_FALSE(client.find("checkpoint/1", kNever));
  CHECK_FALSE(client.download("checkpoint/1", place.path("to"), kNever));
  CHECK_FALSE(fs::exists(place.path("to")));
}

TEST_CASE("only what is shared can be had, and only leases write") {
  Place place;
  place.write("secret", "s");
  const fs::path up = place.write("up", "good");
  place.server->share("checkpoint/1", {.path = up, .ticket = 2});
  place.server->share("model/1", {.path = up, .readable = false, .ticket = 2});
  place.server->share("data", {.path = up});
  FileClient client(place.access());
  const fs::path secret = place.path("secret");
  std::string text;
  CHECK(kind_of([&] { client.find("secret", kNever); }, &text) ==
        ErrorKind::comm);
  CHECK(text.find("nothing of this name") != std::string::npos);
  CHECK(kind_of([&] { client.find("model/1", kNever); }) == ErrorKind::comm);
  // A lease that is over, a name that nobody may write.
  CHECK(kind_of([&] { client.upload("checkpoint/1", 1, secret, kNever); }) ==
        ErrorKind::comm);
  CHECK(kind_of([&] { client.upload("data", 0, secret, kNever); }) ==
        ErrorKind::comm);
  CHECK(read_file(up) == "good");
  CHECK(place.parts() == 0);
}

TEST_CASE("hostile names and messages leave the server as it was") {
  Place place;
  place.server->share("data", {.path = place.write("there", "bytes")});
  Stranger stranger(place.sockets.endpoint("files"));
  for (const char* name : {"../there", "/etc/passwd", "a/../there", ""}) {
    stranger.say(files::encode(files::Find{1, name}));
  }
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    Frames frames = files::encode(files::Write{1, "data", 0, 0, "abc"});
    for (std::string& frame : frames) {
      for (char& c : frame) {
        if (rng.below(8) == 0) c = static_cast<char>(rng());
      }
    }
    stranger.say(frames);
    stranger.say(Frames(1 + rng.below(4), std::string(rng.below(99), 'x')));
  }
  // Answers where requests are meant, and writes that nobody announced.
  stranger.say(files::encode(files::Stored{1}));
  stranger.say(files::encode(files::Write{1, "data", 1u << 30, 0, "abc"}));
  FileClient client(place.access());
  CHECK(client.download("data", place.path("here"), kNever));
  CHECK(read_file(place.path("here")) == "bytes");
  CHECK(read_file(place.path("there")) == "bytes");
  CHECK(place.server->traffic().garbage >= 4);
}

TEST_CASE("a killed receiver goes on where it was") {
  Place place;
  constexpr size_t kSize = size_t{64} << 20;
  const std::string bytes = random_bytes(kSize, 5);
  place.server->share("data", {.path = place.write("there", bytes)});
  const fs::path to = place.path("here");
  int kills = 0;
  const auto part_size = [&]() -> uint64_t {
    for (const auto& entry : fs::directory_iterator(place.folder.path())) {
      if (entry.path().extension() == ".part") return entry.file_size();
    }
    return 0;
  };
  for (const size_t mark : {kSize / 4, kSize / 2}) {
    Fetcher fetcher(place.access(), "data", to);
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (part_size() < mark && !fs::exists(to) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    fetcher.kill_now();
    if (!fs::exists(to)) ++kills;
  }
  const uint64_t before = place.server->traffic().sent;
  const uint64_t had = part_size();
  Fetcher last(place.access(), "data", to);
  CHECK(last.wait() == 0);
  CHECK(read_file(to) == bytes);
  if (kills == 2) {
    CHECK(had >= kSize / 2);
    // Chunks that were under way to one that was killed come on top.
    CHECK(place.server->traffic().sent - before <= kSize - had);
  }
  CHECK(place.parts() == 0);
}

TEST_CASE("two receivers at once get the same") {
  Place place;
  const std::string bytes = random_bytes(size_t{24} << 20, 6);
  place.server->share("data", {.path = place.write("there", bytes)});
  const auto began = std::chrono::steady_clock::now();
  {
    Fetcher a(place.access(), "data", place.path("a"));
    Fetcher b(place.access(), "data", place.path("b"));
    CHECK(a.wait() == 0);
    CHECK(b.wait() == 0);
  }
  const double took = to_seconds(std::chrono::steady_clock::now() - began);
  CHECK(read_file(place.path("a")) == bytes);
  CHECK(read_file(place.path("b")) == bytes);
  MESSAGE("48 MiB to two receivers: " << 48 / took << " MiB/s");
}

TEST_CASE("a server that starts anew does not break transfers") {
  Place place;
  const std::string bytes = random_bytes(size_t{48} << 20, 7);
  const fs::path there = place.write("there", bytes);
  const auto share = [&] {
    place.server->share("data", {.path = there});
    place.server->share("checkpoint/1",
                        {.path = place.path("up"), .ticket = 1});
  };
  share();
  FileAccess access = place.access();
  access.silence = milliseconds(100);
  std::thread down([&] {
    FileClient client(access);
    CHECK(client.download("data", place.path("here"), kNever));
  });
  std::thread up([&] {
    FileClient client(access);
    client.upload("checkpoint/1", 1, there, kNever);
  });
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(milliseconds(30));
    place.server.reset();
    std::this_thread::sleep_for(milliseconds(20));
    place.restart();
    share();
  }
  down.join();
  up.join();
  CHECK(read_file(place.path("here")) == bytes);
  CHECK(read_file(place.path("up")) == bytes);
}

TEST_CASE("a truncated or damaged upload never replaces a good file") {
  Place place;
  const fs::path up = place.write("up", "good");
  place.server->share("checkpoint/1", {.path = up, .ticket = 1});
  const std::string bytes = random_bytes(3 * files::kChunkBytes, 8);
  Stranger stranger(place.sockets.endpoint("files"));
  using files::Accepted, files::Put, files::Refused, files::Write;
  const uint64_t wrong = 42;
  auto answer = stranger.ask(Put{1, "checkpoint/1", 1, bytes.size(), wrong});
  CHECK(std::get<Accepted>(answer).offset == 0);
  // A gap, too much, a part that is damaged: nothing of it is taken.
  const std::string chunk = bytes.substr(0, files::kChunkBytes);
  answer = stranger.ask(Write{1, "checkpoint/1", 5, 0, chunk});
  CHECK(std::get<Refused>(answer).why == files::Why::changed);
  Frames damaged = files::encode(Write{1, "checkpoint/1", 0, 0, chunk});
  damaged[1][9] ^= 4;
  stranger.say(damaged);
  for (size_t at = 0; at < bytes.size(); at += files::kChunkBytes) {
    CHECK(read_file(up) == "good");
    answer = stranger.ask(
        Write{1, "checkpoint/1", at, 0, bytes.substr(at, files::kChunkBytes)});
  }
  // All is there, but not what was announced.
  CHECK(std::get<Refused>(answer).why == files::Why::changed);
  CHECK(read_file(up) == "good");
  CHECK(place.parts() == 0);
  // One who ends in the middle leaves a begin that the next lease clears.
  stranger.ask(Put{2, "checkpoint/1", 1, bytes.size(), wrong});
  stranger.ask(Write{2, "checkpoint/1", 0, 0, chunk});
  CHECK(place.parts() == 1);
  place.server->share("checkpoint/1", {.path = up, .ticket = 2});
  answer = stranger.ask(Write{2, "checkpoint/1", chunk.size(), 0, chunk});
  CHECK(std::get<Refused>(answer).why == files::Why::forbidden);
  CHECK(place.parts() == 0);
  CHECK(read_file(up) == "good");
}

TEST_CASE("an upload goes on where an earlier connection ended") {
  Place place;
  const std::string bytes = random_bytes(8 * files::kChunkBytes, 9);
  const fs::path from = place.write("from", bytes);
  place.server->share("checkpoint/1", {.path = place.path("up"), .ticket = 1});
  const auto info = FileClient::describe(from);
  {
    Stranger stranger(place.sockets.endpoint("files"));
    stranger.ask(files::Put{1, "checkpoint/1", 1, info.size, info.hash});
    for (size_t i = 0; i < 5; ++i) {
      const size_t at = i * files::kChunkBytes;
      stranger.ask(files::Write{1, "checkpoint/1", at, 0,
                                bytes.substr(at, files::kChunkBytes)});
    }
  }
  place.restart();
  place.server->share("checkpoint/1", {.path = place.path("up"), .ticket = 1});
  FileClient client(place.access());
  client.upload("checkpoint/1", 1, from, kNever);
  CHECK(read_file(place.path("up")) == bytes);
  CHECK(place.server->traffic().received == 3 * files::kChunkBytes);
}

TEST_CASE("a begin that is damaged on the disk is found out and fetched anew") {
  Place place;
  const std::string bytes = random_bytes(3 * files::kChunkBytes, 10);
  place.server->share("data", {.path = place.write("there", bytes)});
  FileClient client(place.access());
  const auto info = client.find("data", kNever);
  char name[64];
  snprintf(name, sizeof name, "here.%016llx.part",
           static_cast<unsigned long long>(info->hash));
  place.write(name, std::string(2 * files::kChunkBytes, 'x'));
  CHECK(client.download("data", place.path("here"), kNever));
  CHECK(read_file(place.path("here")) == bytes);
}

TEST_CASE("a file that is replaced while it is fetched arrives whole") {
  Place place;
  const std::string one = random_bytes(size_t{16} << 20, 11);
  const std::string two = random_bytes(size_t{16} << 20, 12);
  place.server->share("checkpoint/1", {.path = place.write("there", one)});
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; !done; ++i) {
      place.write("there", i % 2 == 0 ? two : one);
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  for (int i = 0; i < 3; ++i) {
    FileClient client(place.access());
    CHECK(client.download("checkpoint/1", place.path("here"), kNever));
    const std::string got = read_file(place.path("here"));
    CHECK((got == one || got == two));
  }
  done = true;
  writer.join();
}

TEST_CASE("a transfer ends when it is told to, and when nobody answers") {
  Place place;
  place.server->share("data", {.path = place.write("there", "x")});
  const std::atomic<bool> stop{true};
  FileClient client(place.access());
  CHECK_THROWS_AS(client.find("data", stop), TransferStopped);
  FileAccess nowhere = place.access();
  nowhere.endpoint = place.sockets.endpoint("nobody");
  nowhere.patience = milliseconds(300);
  nowhere.silence = milliseconds(100);
  FileClient lost(nowhere);
  std::string text;
  CHECK(kind_of([&] { lost.find("data", kNever); }, &text) ==
        ErrorKind::temporary);
  CHECK(text.find("has not answered") != std::string::npos);
}

namespace {

// Runs in a child process that has a disk of 1 MiB of its own; false where
// this system does not let us have one.
bool on_small_disk(const fs::path& folder,
                   const std::function<bool(const fs::path&)>& what) {
  constexpr int kNoDisk = 77;
  const pid_t pid = fork();
  if (pid == 0) {
    int code = kNoDisk;
    if ((unshare(CLONE_NEWNS) == 0 ||
         unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        mount("none", folder.c_str(), "tmpfs", 0, "size=1m") == 0) {
      try {
        code = what(folder) ? 0 : 1;
      } catch (...) {
        code = 2;
      }
    }
    _exit(code);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoDisk) return false;
  CHECK(WEXITSTATUS(status) == 0);
  return true;
}

}  // namespace

TEST_CASE("a full disk is temporary, and whose it is is said") {
  Place place;
  const fs::path there = place.write("there", random_bytes(4 << 20, 13));
  place.server->share("data", {.path = there});
  const fs::path small = place.path("small");
  fs::create_directory(small);
  const auto run = [&](const fs::path& disk) {
    std::string text;
    FileClient client(place.access());
    const auto fetch = [&] { client.download("data", disk / "to", kNever); };
    if (kind_of(fetch, &text) != ErrorKind::temporary) return false;
    if (text.find("here: ") != 0) return false;
    if (text.find("the disk is full") == std::string::npos) return false;
    if (!fs::is_empty(disk)) return false;  // the begin gave its room back
    // The other way: a server whose disk is full.
    FileServer server(ListenOptions{.local = place.sockets.endpoint("full")});
    server.share("checkpoint/1", {.path = disk / "up", .ticket = 1});
    FileAccess access = place.access();
    access.endpoint = server.local_endpoint();
    FileClient other(access);
    const auto bring = [&] { other.upload("checkpoint/1", 1, there, kNever); };
    if (kind_of(bring, &text) != ErrorKind::temporary) return false;
    return text.find("the coordinator's disk is full") == 0 &&
           fs::is_empty(disk);
  };
  if (!on_small_disk(small, run)) {
    MESSAGE("skipped: no disk of our own here (mount is not allowed)");
  }
}
