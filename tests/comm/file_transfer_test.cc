// FileClient against FileServer: real sockets, real files, real processes.
#include "comm/file_place.h"

#include "dtune/comm/file_hash.h"
#include "dtune/comm/socket.h"

using namespace dtune;         // NOLINT: a test
using namespace dtune::place;  // NOLINT: likewise

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

TEST_CASE("a missing file is not an error") {
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
  // A lease that is over, a name that is read-only.
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
  // Answers where requests are meant, and writes that were not announced.
  stranger.say(files::encode(files::Stored{1}));
  stranger.say(files::encode(files::Write{1, "data", 1u << 30, 0, "abc"}));
  const uint64_t last = 4711;
  CHECK(std::get<files::Found>(stranger.ask(files::Find{last, "data"})).size ==
        5);
  CHECK(place.server->traffic().garbage >= 500);
  CHECK(place.server->traffic().refused > 0);
  FileClient client(place.access());
  CHECK(client.download("data", place.path("here"), kNever));
  CHECK(read_file(place.path("here")) == "bytes");
  CHECK(read_file(place.path("there")) == "bytes");
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
    const auto end = std::chrono::steady_clock::now() + seconds(90);
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
    // Chunks for the one that was killed, which the server counts late, come on
    // top.
    CHECK(place.server->traffic().sent - before <= kSize - had + kSize / 8);
  }
  CHECK(place.parts() == 0);
}

TEST_CASE("a receiver that takes nothing keeps no other waiting") {
  Place place;
  constexpr uint64_t kChunks = 40;
  const std::string bytes = random_bytes(kChunks * files::kChunkBytes, 3);
  place.server->share("data", {.path = place.write("there", bytes)});
  const SocketContext context;
  Socket idle(context, Socket::Kind::dealer);
  idle.connect(place.access().endpoint);
  for (uint64_t i = 0; i < 5 * kChunks; ++i) {  // 50 MiB, none of them read
    idle.send(files::encode(files::Read{1, "data", file_hash(bytes),
                                        i % kChunks * files::kChunkBytes,
                                        files::kChunkBytes}));
  }
  FileClient client(place.access());
  CHECK(client.download("data", place.path("here"), kNever));
  CHECK(read_file(place.path("here")) == bytes);
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
