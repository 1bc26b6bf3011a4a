// Transfers that go wrong: real sockets, real files, a disk that is full.
#include "comm/file_place.h"
#include "skip.h"
#include <sched.h>
#include <sys/mount.h>

using namespace dtune;         // NOLINT: a test
using namespace dtune::place;  // NOLINT: likewise

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

TEST_CASE("a transfer ends when it is stopped, and when no server answers") {
  Place place;
  place.server->share("data", {.path = place.write("there", "x")});
  const std::atomic<bool> stop{true};
  FileClient client(place.access());
  CHECK_THROWS_AS(client.find("data", stop), TransferStopped);
  FileAccess nowhere = place.access();
  nowhere.endpoint = place.sockets.endpoint("unused");
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

TEST_CASE("a full disk is temporary, and the message says which side's it is") {
#ifdef __SANITIZE_THREAD__
  return skip("the thread sanitizer does not follow threads of a fork");
#endif
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
    return skip("a small file system cannot be mounted here");
  }
}
