// Servers and workers of which a test moves one end by hand.
#include <string>
#include <thread>
#include <vector>

#include "ps_task.h"
#include <doctest/doctest.h>

#include "dtune/parameter_server/ps_server.h"
#include "dtune/parameter_server/ps_worker.h"
#include "dtune/study/trial_runner.h"

using namespace dtune;

namespace {

// What a server begins with that a test moves by hand.
struct SmallStep {
  explicit SmallStep(int workers)
      : step{.plan = task_plan(task, Consistency::sync, workers, 1)} {
    step.arrays = {w, w, {}, runs};
  }
  SocketDirectory folder;
  SocketContext context;
  const PsTask task{100, 3, 5};
  const std::vector<float> w = std::vector<float>(task.parameters());
  const std::vector<DecayRun> runs = {{0, task.parameters(), 0}};
  PsStep step;
};

}  // namespace

TEST_CASE("a server that never comes is named") {
  SocketDirectory folder;
  SocketContext context;
  PsWorkerOptions options;
  options.parameters = 100;
  options.runs = {{0, 100, 0}};
  options.servers = {{folder.endpoint("unused"), std::nullopt}};
  options.patience = std::chrono::milliseconds(300);
  PsWorker worker(context, options);
  std::vector<float> weights(100);
  try {
    worker.next(weights);
    FAIL("there was work");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::comm);
    CHECK(
        std::string(error.what()).find("parameter server 0 has been silent") ==
        0);
  }
}

TEST_CASE("a follower without server 0 and a leader without workers say so") {
  SmallStep small(2);
  for (const int server : {0, 1}) {
    PsServerOptions options;
    options.server = server;
    options.servers = server + 1;
    options.listen.local = small.folder.endpoint("s" + std::to_string(server));
    options.server0 = PsAddress{small.folder.endpoint("unused"), std::nullopt};
    options.patience = std::chrono::milliseconds(300);
    const auto alone = make_ps_server(small.context, options);
    alone->begin(small.step);
    std::string text;
    while (text.empty()) {
      try {
        alone->poll(std::chrono::milliseconds(50));
      } catch (const Error& error) {
        text = error.what();
      }
    }
    CAPTURE(text);
    CHECK(text.find(server == 0
                        ? "member 0 has not connected"
                        : "server 0 has been silent") != std::string::npos);
  }
}

// It waits for work then, and greets again only after a while.
TEST_CASE("a worker that comes to a step too early is known when it begins") {
  SmallStep small(1);
  PsServerOptions options;
  options.listen.local = small.folder.endpoint("server");
  const auto server = make_ps_server(small.context, options);
  server->begin(small.step);
  PsWorkerOptions early;
  early.step = 2;
  early.train = small.step.plan.train;
  early.parameters = small.task.parameters();
  early.runs = small.runs;
  early.servers = {{server->endpoint(), std::nullopt}};
  const PsWorker worker(small.context, early);
  for (int i = 0; i < 150; ++i) server->poll(std::chrono::milliseconds(10));
  CHECK(server->awaited() == 0);
  small.step.step = 2;
  server->begin(small.step);
  CHECK(server->awaited() == -1);
}

namespace {

// Server 0 as a script: it has work, but sends newer weights only when told.
class StingyServer {
 public:
  explicit StingyServer(const SocketDirectory& folder)
      : endpoint_(folder.endpoint("stingy")) {
    socket_.bind(endpoint_);
  }
  const std::string& endpoint() const { return endpoint_; }

  void hear_and_grant(int grants) {
    while (peer_.empty()) next();
    for (int64_t i = 0; i < grants; ++i) {
      say(ps::Grant{
          .session = 1, .ticket = i + 1, .clock = i, .size = 1, .lr = 1});
    }
    serve(0);
  }
  void serve(int64_t ticket) {
    say(ps::Piece{.session = 1,
                  .content = ps::Content::weights,
                  .key = ticket,
                  .floats = ps::bytes_of(weights_)});
    say(ps::Served{.session = 1, .version = ticket, .ticket = ticket});
  }
  void finish() { say(ps::Finish{.session = 1}); }
  // Until there are `count`, or for `patience`.
  int64_t pushes(int64_t count, Duration patience) {
    const MonoTime begin = system_clock().now();
    while (pushes_ < count && system_clock().now() - begin < patience) next();
    return pushes_;
  }

 private:
  void say(const ps::Message& message) {
    REQUIRE(socket_.send(ps::encode(message, {peer_})));
  }
  void next() {
    const auto frames = socket_.receive();
    if (!frames) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    peer_ = frames->front();
    const auto message = ps::decode(std::span(*frames).subspan(1));
    if (std::holds_alternative<ps::Push>(message)) ++pushes_;
  }

  std::string endpoint_;
  SocketContext context_;
  Socket socket_{context_, Socket::Kind::router};
  std::vector<float> weights_ = std::vector<float>(20);
  std::string peer_;
  int64_t pushes_ = 0;
};

}  // namespace

TEST_CASE("a worker is never further ahead than a server keeps") {
  const SocketDirectory folder;
  StingyServer server(folder);
  PsWorkerOptions options;
  options.spec.consistency = Consistency::ssp;
  options.spec.bound = 1000;
  options.parameters = 20;
  options.runs = {{0, 20, 0}};
  options.servers = {{server.endpoint(), std::nullopt}};
  std::thread thread([&] {
    const SocketContext context;
    PsWorker worker(context, options);
    std::vector<float> weights(20), gradient(20);
    while (worker.next(weights)) worker.push(gradient, {}, 0.001);
  });
  server.hear_and_grant(9);
  constexpr auto kOwn = static_cast<int64_t>(PsCache::kMostOwn);
  CHECK(server.pushes(kOwn, std::chrono::seconds(90)) == kOwn);
  CHECK(server.pushes(kOwn + 1, std::chrono::milliseconds(300)) == kOwn);
  server.serve(kOwn);
  CHECK(server.pushes(2 * kOwn, std::chrono::seconds(90)) == 2 * kOwn);
  server.serve(2 * kOwn);
  CHECK(server.pushes(9, std::chrono::seconds(90)) == 9);
  server.finish();
  thread.join();
}

// The server compensates by the weights that it sent; what a worker uses
// besides would not be in them.
TEST_CASE(
    "under delay compensation a worker uses the weights that it was sent") {
  for (const auto compensation : {Compensation::none, Compensation::constant}) {
    const SocketDirectory folder;
    StingyServer server(folder);
    PsWorkerOptions options;
    options.train.momentum = 0;
    options.spec.consistency = Consistency::ssp;
    options.spec.compensation = compensation;
    options.parameters = 20;
    options.runs = {{0, 20, 0}};
    options.servers = {{server.endpoint(), std::nullopt}};
    std::vector<float> used;
    std::thread thread([&] {
      const SocketContext context;
      PsWorker worker(context, options);
      std::vector<float> weights(20);
      const std::vector<float> ones(20, 1);
      while (worker.next(weights)) {
        used.push_back(weights[7]);
        worker.push(ones, {.weight = 0.5, .samples = 1}, 0.001);
      }
    });
    server.hear_and_grant(2);
    CHECK(server.pushes(2, std::chrono::seconds(90)) == 2);
    server.serve(2);
    server.finish();
    thread.join();
    const bool own = compensation == Compensation::none;
    CHECK(used == std::vector<float>{0, own ? -0.5F : 0.0F});
  }
}

namespace {

// A member of a step that sends what a test sets.
class Puppet {
 public:
  explicit Puppet(PsServer& server) : server_(server) {
    socket_.connect(server.endpoint());
  }
  void say(const ps::Message& message) {
    REQUIRE(socket_.send(ps::encode(message)));
  }
  // The next message of this type.
  template <class M>
  M hear() {
    const MonoTime begin = system_clock().now();
    while (system_clock().now() - begin < std::chrono::seconds(90)) {
      server_.poll(std::chrono::milliseconds(1));
      const auto frames = socket_.receive();
      if (!frames) continue;
      const auto message = ps::decode(*frames);
      if (const M* wanted = std::get_if<M>(&message)) return *wanted;
    }
    FAIL("it was not said");
    return {};
  }

 private:
  PsServer& server_;
  SocketContext context_;
  Socket socket_{context_, Socket::Kind::dealer};
};

}  // namespace

TEST_CASE("a dead worker's gradient that arrives late delays no other") {
  SmallStep small(1);
  PsServerOptions options;
  options.servers = 2;
  options.listen.local = small.folder.endpoint("server");
  options.patience = std::chrono::seconds(1);
  const auto leader = make_ps_server(small.context, options);
  leader->begin(small.step);
  Puppet follower(*leader);
  Puppet worker(*leader);
  const int64_t parameters = small.task.parameters();
  follower.say(ps::Follow{.step = 1, .server = 1, .parameters = parameters});
  const uint64_t session = follower.hear<ps::Lead>().session;
  worker.say(ps::Hello{.nonce = 5, .step = 1, .parameters = parameters});
  follower.say(ps::Present{.session = session, .nonce = 5});
  const int64_t ticket = worker.hear<ps::Grant>().ticket;
  leader->remove(0);
  follower.say(ps::Arrived{.session = session, .ticket = ticket});
  const MonoTime begin = system_clock().now();
  while (system_clock().now() - begin < std::chrono::milliseconds(2500)) {
    leader->poll(std::chrono::milliseconds(50));  // it would throw
  }
  CHECK(leader->awaited() == -1);
}

// The others go on from a checkpoint: none has the end of the step any more.
TEST_CASE("a follower that begins anew when server 0 is done is reported") {
  SmallStep small(1);
  small.step.plan.parallel.ps.servers = 2;
  PsServerOptions options;
  options.servers = 2;
  options.listen.local = small.folder.endpoint("s0");
  const auto leader = make_ps_server(small.context, options);
  options.server = 1;
  options.listen.local = small.folder.endpoint("s1");
  options.server0 = PsAddress{leader->endpoint(), std::nullopt};
  const auto follower = make_ps_server(small.context, options);
  leader->begin(small.step);
  follower->begin(small.step);
  std::thread thread([&] {
    const SocketContext context;
    PsWorkerOptions own;
    own.spec = small.step.plan.parallel.ps;
    own.train = small.step.plan.train;
    own.parameters = small.task.parameters();
    own.runs = small.runs;
    own.servers = {{leader->endpoint(), std::nullopt},
                   {follower->endpoint(), std::nullopt}};
    PsWorker worker(context, own);
    std::vector<float> w(small.w.size());
    std::vector<float> gradient(small.w.size());
    std::vector<float> buffers;
    while (const auto grant = worker.next(w)) {
      const auto totals =
          small.task.gradient(w, grant->first, grant->size, gradient);
      worker.push(gradient, totals, 0.001);
    }
    worker.finish(w, buffers);
  });
  while (!leader->trained()) {
    follower->poll(std::chrono::milliseconds(1));
    leader->poll(std::chrono::milliseconds(1));
  }
  while (!follower->trained()) follower->poll(std::chrono::milliseconds(1));
  thread.join();
  follower->begin(small.step);
  std::string text;
  while (text.empty()) {
    try {
      leader->poll(std::chrono::milliseconds(50));
    } catch (const TrialFailure& failure) {
      CHECK(failure.reason() == Reason::lease_lapsed);
      text = failure.what();
    }
  }
  CHECK(text.find("parameter server 1 has lost the end of step") == 0);
}
