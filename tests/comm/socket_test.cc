#include "dtune/comm/socket.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

constexpr Duration kSocketPatience = std::chrono::seconds(90);

std::optional<Frames> receive(Socket& socket) {
  PollSet polls;
  polls.add(socket);
  polls.wait(kSocketPatience);
  return socket.receive();
}

}  // namespace

TEST_CASE("frames go to and fro between a router and a dealer") {
  const SocketDirectory folder;
  const SocketContext context;
  Socket router(context, Socket::Kind::router);
  Socket dealer(context, Socket::Kind::dealer);
  router.bind(folder.endpoint("s"));
  dealer.connect(folder.endpoint("s"));
  REQUIRE(dealer.send(Frames{"a", "b"}));
  auto frames = receive(router);
  REQUIRE(frames);
  REQUIRE(frames->size() == 3);
  CHECK(router.send(Frames{frames->front(), "c"}));
  CHECK(receive(dealer) == Frames{"c"});
  CHECK(!dealer.receive());
}

TEST_CASE(
    "a router says that a peer is unknown instead of losing the message") {
  const SocketDirectory folder;
  const SocketContext context;
  Socket router(context, Socket::Kind::router);
  router.bind(folder.endpoint("s"));
  CHECK(!router.send(Frames{"unknown", "hello"}));
}

TEST_CASE("the folder of sockets is closed to other users") {
  const SocketDirectory folder;
  struct stat info {};
  REQUIRE(stat(folder.path().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("folders of sockets that killed processes have left are removed") {
  const TemporaryDirectory root("dtune-test");
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string before = runtime != nullptr ? runtime : "";
  ::setenv("XDG_RUNTIME_DIR", root.path().c_str(), 1);
  const auto long_ago =
      fs::file_time_type::clock::now() - std::chrono::hours(1);
  const SocketDirectory living;
  fs::path left = living.path();
  left += "x";
  fs::create_directory(left);
  std::ofstream(left / "socket") << "x";
  fs::last_write_time(left, long_ago);
  fs::last_write_time(living.path(), long_ago);
  const SocketDirectory next;
  CHECK(living.path().parent_path() == root.path());
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(living.path()));
  ::setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
}

TEST_CASE("a socket path that is too long is refused with a remedy") {
  const SocketContext context;
  Socket router(context, Socket::Kind::router);
  const std::string path = "ipc:///tmp/" + std::string(120, 'x');
  CHECK_THROWS_WITH_AS(
      router.bind(path),
      (path + ": the path of a socket has 125 bytes, the system "
              "allows 107 (choose a shorter folder, e.g. set "
              "TMPDIR=/tmp)")
          .c_str(),
      Error);
}

TEST_CASE("a port that is taken is a temporary error") {
  const SocketContext context;
  Socket first(context, Socket::Kind::router);
  Socket second(context, Socket::Kind::router);
  first.bind("tcp://127.0.0.1:*");
  try {
    second.bind(first.bound_endpoint());
    FAIL("bound twice");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::temporary);
  }
}
