#include "dtune/comm/sealed_socket.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "comm/groups.h"
#include "comm/threads.h"
#include "eventually.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "dtune/comm/rank_sockets.h"

using namespace dtune;  // NOLINT: a test

namespace {

std::pair<Descriptor, Descriptor> pipe_ends() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                       ends) == 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Two ranks, and the network between them.
struct Line {
  Line() {
    auto [a, near] = pipe_ends();
    auto [b, far] = pipe_ends();
    SealKeys keys{};
    keys.sends.fill(1);
    keys.receives.fill(2);
    first = seal(std::move(a), keys);
    second = seal(std::move(b), {keys.receives, keys.sends});
    from_first = std::move(near);
    to_second = std::move(far);
  }

  // Passes on what is there, changed where `damage` says so.
  void carry(bool damage = false) {
    std::string bytes(100'000, '\0');
    const ssize_t got = ::recv(from_first.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return;
    bytes.resize(static_cast<size_t>(got));
    if (damage) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    on_the_way += bytes;
    (void)!::send(to_second.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // False where the connection is over.
  bool hear() {
    std::string bytes(100'000, '\0');
    const ssize_t got = ::recv(second.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) heard.append(bytes, 0, static_cast<size_t>(got));
    return got > 0 || (got < 0 && errno == EAGAIN);
  }

  Descriptor first;   // as Gloo has it
  Descriptor second;  // likewise
  Descriptor from_first;
  Descriptor to_second;
  std::string on_the_way;
  std::string heard;
};

void say(const Descriptor& socket, const std::string& text) {
  REQUIRE(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
}

}  // namespace

TEST_CASE("what is sealed arrives, and cannot be read on the way") {
  Line line;
  std::string text;
  for (int i = 0; text.size() < 100'000; ++i) text += std::to_string(i) + " ";
  say(line.first, text);
  CHECK(eventually([&] {
    line.carry();
    return line.hear() && line.heard.size() == text.size();
  }));
  CHECK(line.heard == text);
  CHECK(line.on_the_way.size() > text.size());
  CHECK(line.on_the_way.find("1234 1235") == std::string::npos);
}

TEST_CASE("what was changed on the way ends a sealed connection") {
  Line line;
  say(line.first, "gradients");
  CHECK(eventually([&] {
    line.carry(/*damage=*/true);
    return !line.hear();
  }));
  CHECK(line.heard.empty());
}

TEST_CASE("a sealed connection ends where either end closes it") {
  Line line;
  say(line.first, "the last words");
  line.first.reset();
  CHECK(eventually([&] {
    line.carry();
    char c = 0;
    if (::recv(line.from_first.get(), &c, 1, MSG_PEEK) == 0) {
      line.to_second.reset();
    }
    return !line.hear();
  }));
  CHECK(line.heard == "the last words");
}

TEST_CASE("two ranks seal their connection where one of them asks for it") {
  constexpr int kRanks = 3;
  ThreadStore store;
  std::vector<std::vector<Descriptor>> sockets(kRanks);
  on_ranks(kRanks, [&](int rank) {
    const GroupOptions options{
        .rank = rank, .size = kRanks, .name = "g", .address = "127.0.0.1"};
    auto meshes = connect_ranks(options, 1, store, rank == 1);
    sockets[static_cast<size_t>(rank)] = std::move(meshes[0]);
  });
  for (size_t a = 0; a < kRanks; ++a) {
    for (size_t b = 0; b < kRanks; ++b) {
      if (a == b) continue;
      const std::string text = std::to_string(a) + std::to_string(b);
      say(sockets[a][b], text);
      std::string heard(2, '\0');
      CHECK(eventually([&] {
        return ::recv(sockets[b][a].get(), heard.data(), 2, 0) == 2;
      }));
      CHECK(heard == text);
    }
  }
}

TEST_CASE("a group whose connections are sealed reduces as others do") {
  ::setenv("DTUNE_ENCRYPT_RANKS", "1", 1);
  constexpr int kRanks = 3;
  ThreadStore store;
  on_ranks(kRanks, [&](int rank) {
    const auto group = make_gloo_group(
        {.rank = rank, .size = kRanks, .name = "g", .address = "127.0.0.1"},
        store);
    std::vector<float> data(300'000, static_cast<float>(rank + 1));
    for (int i = 0; i < 3; ++i) {
      group->all_reduce(data, std::chrono::seconds(60));
    }
    CHECK(data.front() == 6 * 3 * 3);
    CHECK(data.back() == 6 * 3 * 3);
  });
  ::unsetenv("DTUNE_ENCRYPT_RANKS");
}
