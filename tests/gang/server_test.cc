#include "dtune/gang/server.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "eventually.h"
#include "gang/toy_member.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/comm/socket.h"
#include "dtune/gang/client.h"
#include "dtune/gang/protocol.h"

namespace dtune {
namespace {

GangOptions gang_of(int ranks) {
  GangOptions options;
  options.gang = "7.1";
  options.parallel.mode = ParallelMode::data;
  options.parallel.ranks = ranks;
  options.parallel.predictor = PredictorKind::last;
  return options;
}

struct Stage {
  SocketDirectory sockets;
  GangServer server{{.local = sockets.endpoint("g")}, {}};

  RankInfo rank(int member, int members) const {
    RankInfo rank;
    rank.gang = "7.1";
    rank.member = member;
    rank.members = members;
    rank.endpoint = server.local_endpoint();
    return rank;
  }
};

int64_t count(GangServer& server, GangEvent::Kind kind) {
  const auto events = server.take_events();
  return std::count_if(events.begin(), events.end(),
                       [kind](const GangEvent& e) { return e.kind == kind; });
}

gang::Begin begin_of(int64_t samples, int64_t batch) {
  gang::Begin begin;
  begin.end = begin.epoch_samples = samples;
  begin.batch_size = batch;
  begin.evaluation_batches = 7;
  return begin;
}

}  // namespace

TEST_CASE("a gang of threads trains evaluates and commits a step") {
  Stage stage;
  constexpr int kRanks = 3;
  GangOptions options = gang_of(kRanks);
  // A rank that is held up is waited for.
  options.parallel.stragglers = StragglerPolicy::off;
  stage.server.open(options);
  const std::atomic<bool> never{false};
  std::vector<toy::StepSeen> seen(kRanks);
  std::vector<std::thread> threads;
  for (int m = 0; m < kRanks; ++m) {
    threads.emplace_back([&, m] {
      GangClient client(stage.rank(m, kRanks));
      seen[static_cast<size_t>(m)] =
          toy::run_step(client, begin_of(1000, 32), never);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(toy::counts(seen, 0, 1000) == std::vector<int>(1000, 1));
  for (const toy::StepSeen& member : seen) {
    CHECK(member.ended == "");
    CHECK(member.regroups == 1);
    CHECK(member.metrics == std::map<std::string, double>{{"by", 0}});
    REQUIRE(member.gos.size() == 32 + 2);
    CHECK(member.gos[0].totals.samples == 32);
    CHECK(member.gos[32].totals.samples == 7);
  }
}

TEST_CASE("a member whose process is killed does not stop the others") {
  Stage stage;
  GangOptions options = gang_of(2);
  options.lease = std::chrono::seconds(2);
  stage.server.open(options);
  const std::string endpoint = stage.server.local_endpoint();
  pid_t child = -1;
  const char* const argv[] = {
      DTUNE_GANG_MEMBER, endpoint.c_str(), "1", "2", "3200", "5", nullptr};
  REQUIRE(posix_spawn(&child, DTUNE_GANG_MEMBER, nullptr, nullptr,
                      const_cast<char**>(argv), environ) == 0);
  GangClient client(stage.rank(0, 2));
  const std::atomic<bool> never{false};
  gang::Begin begin = begin_of(3200, 32);
  begin.evaluation_batches = 0;
  int rounds = 0;
  const toy::StepSeen seen =
      toy::run_step(client, begin, never, [&](const gang::Work&) {
        if (++rounds == 10) kill(child, SIGKILL);
      });
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(seen.ended == "");
  CHECK(seen.metrics.at("by") == 0);
  CHECK(seen.gos.front().participants == std::vector<int>{0, 1});
  CHECK(seen.gos.back().participants == std::vector<int>{0});
  // Fewer than a half may not go on without it before it is known to be gone.
  CHECK(eventually([&] { return count(stage.server, GangEvent::Kind::lost); }));
}

TEST_CASE("a member measures how long it has stood still") {
  Stage stage;
  stage.server.open(gang_of(1));
  const std::string endpoint = stage.server.local_endpoint();
  pid_t child = -1;
  const char* const argv[] = {
      DTUNE_GANG_MEMBER, endpoint.c_str(), "0", "1", "3200000", "5", nullptr};
  REQUIRE(posix_spawn(&child, DTUNE_GANG_MEMBER, nullptr, nullptr,
                      const_cast<char**>(argv), environ) == 0);
  const auto stood_still = [&] {
    const auto gauges = stage.server.status("7.1").members[0].gauges;
    const auto found = gauges.find("stood_still");
    return found == gauges.end() ? -1 : found->second;
  };
  CHECK(eventually([&] { return stood_still() >= 0; }));
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  kill(child, SIGCONT);
  CHECK(eventually([&] { return stood_still() > 0.5; }));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("the newer of two processes in one place wins") {
  Stage stage;
  stage.server.open(gang_of(1));
  const std::atomic<bool> never{false};
  GangClient older(stage.rank(0, 1));
  gang::Begin begin = begin_of(1000, 10);
  older.begin(begin);
  REQUIRE(std::holds_alternative<gang::Regroup>(older.wait(never)));
  GangClient newer(stage.rank(0, 1));
  const gang::Order end = older.wait(never);
  REQUIRE(std::holds_alternative<gang::Evicted>(end));
  CHECK(std::get<gang::Evicted>(end).why ==
        "a newer process has taken this place");
}

TEST_CASE(
    "a member that has begun nothing is replaced and a pipeline goes on") {
  Stage stage;
  GangOptions options = gang_of(1);
  options.parallel.mode = ParallelMode::model;
  options.parallel.ranks = 2;
  stage.server.open(options);
  const std::atomic<bool> never{false};
  GangClient older(stage.rank(0, 2));
  REQUIRE(eventually([&] {
    const auto status = stage.server.status("7.1");
    return status.members.front().present;
  }));
  GangClient newer(stage.rank(0, 2));
  CHECK(std::holds_alternative<gang::Evicted>(older.wait(never)));
  GangClient other(stage.rank(1, 2));
  toy::StepSeen seen;
  std::thread thread(
      [&] { seen = toy::run_step(other, begin_of(100, 10), never); });
  CHECK(toy::run_step(newer, begin_of(100, 10), never).ended == "");
  thread.join();
  CHECK(seen.ended == "");
}

TEST_CASE("garbage and unknown senders do not disturb a gang") {
  Stage stage;
  GangOptions options = gang_of(2);
  // A rank that is held up is waited for.
  options.parallel.stragglers = StragglerPolicy::off;
  stage.server.open(options);
  std::atomic<bool> done{false};
  std::thread vandal([&] {
    const SocketContext context;
    Socket socket(context, Socket::Kind::dealer);
    socket.connect(stage.server.local_endpoint());
    Rng rng(1);
    const std::string good = gang::encode({1, 0, 0, gang::Begin{}});
    while (!done) {
      std::string bytes = good;
      for (int i = 0; i < 3; ++i) {
        bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
      }
      socket.send(Frames{bytes.substr(0, rng.below(bytes.size() + 1))});
      socket.send(Frames{good});  // of a member that has not joined
      socket.send(Frames{gang::encode(
          {0, 0, 0, gang::Join{.gang = "8.1", .member = 0, .process = "x"}})});
      socket.send(Frames{gang::encode(
          {0, 0, 0, gang::Join{.gang = "7.1", .member = 77, .process = "x"}})});
      socket.receive();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    socket.send(Frames{std::string(wire::kMaxFrameBytes + 1, 'x')});
  });
  const std::atomic<bool> never{false};
  std::vector<toy::StepSeen> seen(2);
  std::vector<std::thread> threads;
  for (int m = 0; m < 2; ++m) {
    threads.emplace_back([&, m] {
      GangClient client(stage.rank(m, 2));
      seen[static_cast<size_t>(m)] =
          toy::run_step(client, begin_of(2000, 32), never);
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  vandal.join();
  CHECK(toy::counts(seen, 0, 2000) == std::vector<int>(2000, 1));
  CHECK(seen[0].ended == "");
}

TEST_CASE("a member's place is that of the key that it was given to") {
  const CurveKeys own = generate_curve_keys();
  const CurveKeys member = generate_curve_keys();
  const CurveKeys other = generate_curve_keys();
  auto allowed = std::make_shared<AllowList>();
  allowed->add(member.public_key);
  allowed->add(other.public_key);
  const SocketDirectory sockets;
  GangServer server({.local = sockets.endpoint("g"),
                     .remote = "tcp://127.0.0.1:0",
                     .security = ListenSecurity{own, allowed}},
                    {});
  server.open(gang_of(2));
  server.admit("7.1", 0, member.public_key);
  server.admit("7.1", 1, "");
  const SocketContext context;
  const auto answer = [&](const std::optional<CurveKeys>& keys, int place) {
    SocketOptions options;
    if (keys) options.client = CurveClient{own.public_key, *keys};
    Socket socket(context, Socket::Kind::dealer, options);
    socket.connect(keys ? server.remote_endpoint() : server.local_endpoint());
    const std::string join = gang::encode(
        {0, 0, 0, gang::Join{.gang = "7.1", .member = place, .process = "x"}});
    std::optional<Frames> got;
    bool sent = false;
    CHECK(eventually([&] {
      sent = sent || socket.send(Frames{join});
      got = socket.receive();
      return got.has_value();
    }));
    return gang::decode(got.value().back()).message;
  };
  const auto admits = [&](const std::optional<CurveKeys>& keys, int place) {
    return std::holds_alternative<gang::Welcome>(answer(keys, place));
  };
  CHECK_FALSE(admits(other, 0));
  CHECK_FALSE(admits(std::nullopt, 0));
  CHECK_FALSE(admits(member, 1));
  CHECK(admits(member, 0));
  CHECK(admits(std::nullopt, 1));
  const gang::Message refusal = answer(other, 0);
  const auto* closed = std::get_if<gang::Closed>(&refusal);
  REQUIRE(closed != nullptr);
  CHECK(closed->why.find("was given to another key") != std::string::npos);
  server.admit("7.1", 0, other.public_key);  // the next lease's
  CHECK(admits(other, 0));
}

TEST_CASE("members share values by name and wait for them") {
  Stage stage;
  stage.server.open(gang_of(2));
  GangClient a(stage.rank(0, 2));
  GangClient b(stage.rank(1, 2));
  std::string got;
  std::thread waiter(
      [&] { got = b.store().get("address", std::chrono::seconds(30)); });
  a.store().set("address", std::string("10.0.0.1\0x", 10));
  waiter.join();
  CHECK(got == std::string("10.0.0.1\0x", 10));
  CHECK(a.store().get("address", std::chrono::seconds(30)) == got);
  CHECK_THROWS_WITH_AS(a.store().get("nothing", std::chrono::milliseconds(10)),
                       "gang 7.1: no member has set 'nothing' within 10ms",
                       Error);
}

TEST_CASE("a gang that is closed tells its members and those that come later") {
  Stage stage;
  stage.server.open(gang_of(2));
  const std::atomic<bool> never{false};
  GangClient client(stage.rank(0, 2));
  client.begin(begin_of(10, 2));
  CHECK(eventually(
      [&] { return stage.server.status("7.1").members[0].present; }));
  stage.server.close("7.1", "the trial was cut");
  const auto why = [&](GangClient& c) {
    return std::get<gang::Closed>(c.wait(never)).why;
  };
  CHECK(why(client) == "the trial was cut");
  GangClient late(stage.rank(1, 2));
  CHECK(why(late) == "the trial was cut");
  CHECK(stage.server.status("7.1").members.empty());
}

TEST_CASE("a member notices that its server is gone") {
  SocketDirectory sockets;
  RankInfo rank;
  rank.gang = "7.1";
  rank.endpoint = sockets.endpoint("g");
  GangOptions options = gang_of(1);
  options.lease = std::chrono::milliseconds(300);
  auto server = std::make_unique<GangServer>(
      ListenOptions{.local = rank.endpoint}, nullptr);
  server->open(options);
  GangClient client(rank);
  client.begin(begin_of(10, 2));
  const std::atomic<bool> never{false};
  client.wait(never);
  server.reset();
  // Either its last word comes, or nothing more.
  try {
    CHECK(std::holds_alternative<gang::Closed>(client.wait(never)));
  } catch (const GangLost& e) {
    CHECK(std::string(e.what()).find("silent for") != std::string::npos);
  }
}

TEST_CASE("what members record becomes one trace") {
  TemporaryDirectory folder;
  const auto file = folder.path() / "trace.json";
  {
    Stage stage;
    stage.server.trace_to(file);
    GangOptions options = gang_of(1);
    options.nodes = {"gpu\"1\""};
    stage.server.open(options);
    GangClient client(stage.rank(0, 1));
    const std::atomic<bool> never{false};
    REQUIRE(eventually([&] { return client.trace().enabled(); }));
    const gang::Begin begin = begin_of(100, 10);
    toy::run_step(client, begin, never, [&](const gang::Work& work) {
      const MonoTime now = system_clock().now();
      client.trace().span("compute", "batch " + std::to_string(work.number),
                          now, now + std::chrono::milliseconds(1));
    });
    client.gauge("staleness", 3);
    REQUIRE(eventually([&] {
      const std::string text = read_file(file);
      return text.find("\"batch 5\"") != std::string::npos &&
             text.find("\"staleness\"") != std::string::npos;
    }));
  }
  const std::string text = read_file(file);
  CHECK(text.starts_with("[\n{"));
  CHECK(text.ends_with("}]\n"));
  const std::string name = R"x({"name":"rank 0 (gpu\"1\")"})x";
  CHECK(text.find(name) != std::string::npos);
  CHECK(text.find(R"("args":{"name":"compute"})") != std::string::npos);
  CHECK(text.find(R"("name":"batch share","ph":"C")") != std::string::npos);
}

// The trace goes into a pipe, whose reader leaves.
TEST_CASE("a trace that cannot be written any more ends and says so once") {
  std::signal(SIGPIPE, SIG_IGN);
  TemporaryDirectory folder;
  const auto pipe = folder.path() / "trace";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  Stage stage;
  stage.server.trace_to(pipe);
  stage.server.open(gang_of(1));
  GangClient client(stage.rank(0, 1));
  REQUIRE(eventually([&] { return client.trace().enabled(); }));
  close(reader);
  client.gauge("staleness", 3);
  std::vector<GangEvent> events;
  REQUIRE(eventually([&] {
    events = stage.server.take_events();
    return !events.empty();
  }));
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == GangEvent::Kind::untraced);
  CHECK(events[0].gang == "7.1");
  CHECK(events[0].text ==
        pipe.string() + ": the trace cannot be written: Broken pipe");
  CHECK(eventually([&] { return !client.trace().enabled(); }));
  client.gauge("staleness", 4);
  const std::atomic<bool> never{false};
  CHECK(toy::run_step(client, begin_of(100, 10), never).ended == "");
  CHECK(count(stage.server, GangEvent::Kind::untraced) == 0);
}

TEST_CASE("a trace that cannot be written at all is an error at once") {
  Stage stage;
  CHECK_THROWS_WITH_AS(
      stage.server.trace_to("/dev/full"),
      "/dev/full: the trace cannot be written: No space left on device", Error);
}

// They say nothing but heartbeats, which renew their leases: a gauge shows that
// one of every member has come.
TEST_CASE("two hundred members keep in touch with one server") {
  Stage stage;
  constexpr int kMembers = 200;
  GangOptions options = gang_of(kMembers);
  options.lease = std::chrono::seconds(5);
  stage.server.open(options);
  std::vector<std::unique_ptr<GangClient>> clients;
  for (int m = 0; m < kMembers; ++m) {
    clients.push_back(std::make_unique<GangClient>(stage.rank(m, kMembers)));
  }
  const auto present = [&] {
    const auto status = stage.server.status("7.1");
    return std::count_if(status.members.begin(), status.members.end(),
                         [](const MemberStatus& m) { return m.present; });
  };
  REQUIRE(eventually([&] { return present() == kMembers; }));
  const auto heard = [&](double beat) {
    const auto members = stage.server.status("7.1").members;
    return std::all_of(members.begin(), members.end(), [&](const auto& m) {
      return m.gauges.contains("beat") && m.gauges.at("beat") == beat;
    });
  };
  const auto began = std::chrono::steady_clock::now();
  double beat = 0;
  while (std::chrono::steady_clock::now() - began < 4 * options.lease / 3) {
    ++beat;
    for (const auto& client : clients) client->gauge("beat", beat);
    REQUIRE(eventually([&] { return heard(beat); }));
  }
  CHECK(present() == kMembers);
  CHECK(count(stage.server, GangEvent::Kind::lost) == 0);
}

TEST_CASE("a member that falls silent is noticed while others flood") {
  Stage stage;
  GangOptions options = gang_of(3);
  options.lease = std::chrono::seconds(1);
  stage.server.open(options);
  SocketContext context;
  Socket silent(context, Socket::Kind::dealer);
  silent.connect(stage.server.local_endpoint());
  gang::Packet join;
  join.message = gang::Join{"7.1", 0, "p", 0};
  silent.send(Frames{gang::encode(join)});
  REQUIRE(eventually(
      [&] { return stage.server.status("7.1").members[0].present; }));
  std::atomic<bool> over = false;
  std::vector<std::thread> flooders;
  for (int i = 0; i < 2; ++i) {
    flooders.emplace_back([&] {
      const SocketContext own;
      Socket socket(own, Socket::Kind::dealer);
      socket.connect(stage.server.local_endpoint());
      while (!over) {
        if (!socket.send(Frames{"x"})) std::this_thread::yield();
      }
    });
  }
  CHECK(eventually(
      [&] { return count(stage.server, GangEvent::Kind::lost) > 0; }));
  over = true;
  for (std::thread& flooder : flooders) flooder.join();
}

}  // namespace dtune
