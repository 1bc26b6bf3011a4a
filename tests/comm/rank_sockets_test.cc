#include "dtune/comm/rank_sockets.h"

#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "comm/groups.h"
#include "comm/threads.h"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

int port_in(const std::string& meeting) {
  return std::stoi(meeting.substr(0, meeting.find(' ')));
}

Descriptor call(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to),
                    sizeof to) == 0);
  return socket;
}

// Strangers are at each rank's port before any other rank can be.
class BesetStore final : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    {
      const std::lock_guard lock(mutex_);
      for (int i = 0; i < 5; ++i) {
        strangers.push_back(call(port_in(value)));
        // Nothing; too little; the form of a rank's words, without the proof.
        const std::string words(i < 2 ? 0 : i == 2 ? 20 : 72, '\0');
        ::send(strangers.back().get(), words.data(), words.size(), 0);
      }
      ports.push_back(port_in(value));
    }
    store_.set(key, value);
  }
  std::string get(const std::string& key, Duration timeout) override {
    return store_.get(key, timeout);
  }

  std::vector<Descriptor> strangers;
  std::vector<int> ports;

 private:
  std::mutex mutex_;
  ThreadStore store_;
};

GroupOptions rank_of(int rank, int size) {
  return {.rank = rank, .size = size, .name = "g", .address = "127.0.0.1"};
}

// All that came, until the other end closed it.
std::string heard(const Descriptor& socket) {
  std::string all;
  std::string some(1000, '\0');
  ssize_t got;
  while ((got = ::recv(socket.get(), some.data(), some.size(), 0)) > 0) {
    all.append(some, 0, static_cast<size_t>(got));
  }
  return all;
}

}  // namespace

TEST_CASE(
    "unknown processes that connect first do not harm a group or learn of it") {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 10'000;
  BesetStore store;
  on_ranks(kRanks, [&](int rank) {
    const auto group = make_gloo_group(rank_of(rank, kRanks), store);
    std::vector<float> data(kCount, static_cast<float>(rank + 1));
    for (int i = 0; i < 3; ++i) {
      group->all_reduce(data, std::chrono::seconds(60));
    }
    CHECK(data.front() == 6 * 3 * 3);
    CHECK(data.back() == 6 * 3 * 3);
  });
  REQUIRE(store.strangers.size() == 5 * kRanks);
  // A challenge at most: 32 random bytes.
  for (const Descriptor& one : store.strangers) CHECK(heard(one).size() <= 32);
}

TEST_CASE(
    "ranks listen in the range that they are given, until they have met") {
  constexpr int kRanks = 3;
  // A range that the system gives no process by itself.
  const int first = 20'000 + static_cast<int>(::getpid() % 400) * 20;
  BesetStore store;
  std::vector<std::unique_ptr<Collective>> groups(kRanks);
  on_ranks(kRanks, [&](int rank) {
    GroupOptions options = rank_of(rank, kRanks);
    options.ports = {first, first + 10};
    groups[static_cast<size_t>(rank)] = make_gloo_group(options, store);
  });
  REQUIRE(store.ports.size() == kRanks);
  for (const int port : store.ports) {
    CHECK(port >= first);
    CHECK(port <= first + 10);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    const Descriptor late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::connect(late.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) !=
          0);
  }
}

TEST_CASE("a range without a free port is named") {
  Descriptor taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.1", &own.sin_addr);
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  REQUIRE(::bind(taken.get(), address, size) == 0);
  REQUIRE(::listen(taken.get(), 1) == 0);
  REQUIRE(::getsockname(taken.get(), address, &size) == 0);
  GroupOptions options = rank_of(0, 2);
  options.ports = {ntohs(own.sin_port), ntohs(own.sin_port)};
  ThreadStore store;
  try {
    make_gloo_group(options, store);
    FAIL("it listens at a port that is taken");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("group 'g': all ports of ") == 0);
  }
}

TEST_CASE(
    "a rank that was not at the rendezvous is not admitted to the group") {
  // It knows the group's name and rank 0's port, but not what is in the store.
  ThreadStore store;
  ThreadStore elsewhere;
  GroupOptions options = rank_of(0, 2);
  options.connect_timeout = std::chrono::seconds(2);
  on_ranks(2, [&](int rank) {
    if (rank == 0) {
      elsewhere.set("g/gloo/1", "1 " + std::string(64, 'a') + " 127.0.0.1");
      try {
        class Both final : public RendezvousStore {
         public:
          Both(ThreadStore& shown, ThreadStore& seen)
              : shown_(shown), seen_(seen) {}
          void set(const std::string& key, const std::string& value) override {
            // The port is known; the secret is another.
            shown_.set(key, value.substr(0, value.find(' ')) + " " +
                                std::string(64, 'b') + " 127.0.0.1");
          }
          std::string get(const std::string& key, Duration timeout) override {
            return seen_.get(key, timeout);
          }

         private:
          ThreadStore& shown_;
          ThreadStore& seen_;
        } both(store, elsewhere);
        make_gloo_group(options, both);
        FAIL("an impostor was let in");
      } catch (const RanksMissing& e) {
        CHECK(e.ranks() == std::vector<int>{1});
      }
    } else {
      GroupOptions impostor = options;
      impostor.rank = 1;
      CHECK_THROWS_AS(make_gloo_group(impostor, store), RanksMissing);
    }
  });
}
