#include "dtune/train/ps_server.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ps_task.h"
#include <doctest/doctest.h>

#include "dtune/train/ps_rules.h"

using namespace dtune;

namespace {

// The same training by one process.
std::vector<float> train_alone(const PsTask& task, const PsPlan& plan) {
  const auto size = static_cast<size_t>(task.parameters());
  std::vector<float> w(size), g(size), v(size);
  const std::vector<DecayRun> runs = {{0, task.parameters(), 0}};
  const BatchCutter cutter(plan.epoch_samples, plan.train.batch_size);
  int64_t number = 0;
  for (int64_t at = 0; at < plan.end;) {
    const BatchRange batch = cutter.at(at);
    task.gradient(w, batch.first, batch.size, g);
    apply_update(plan.train, {.lr = plan.train.lr, .number = ++number}, runs,
                 {w, g, v, {}});
    at += batch.size;
  }
  return w;
}

std::vector<float> zeros(const PsTask& task) {
  return std::vector<float>(static_cast<size_t>(task.parameters()));
}

void check_no_errors(const PsCluster& cluster) {
  for (const std::string& error : cluster.errors) {
    CAPTURE(error);
    CHECK(error.empty());
  }
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - b[i], 2.0);
  return std::sqrt(sum);
}

// What a server begins with that a test moves by hand.
struct SmallStep {
  explicit SmallStep(int workers)
      : step{.plan = task_plan(task, Consistency::sync, workers, 1)} {
    step.arrays = {w, w, {}, runs};
  }
  SocketDirectory folder;
  SocketContext context;
  const PsTask task{100, 3, 5};
  const std::vector<float> w = zeros(task);
  const std::vector<DecayRun> runs = {{0, task.parameters(), 0}};
  PsStep step;
};

}  // namespace

TEST_CASE("sync over sockets is what one process trains") {
  const PsTask task(500, 40, 1);
  for (const int servers : {1, 3}) {
    PsPlan plan = task_plan(task, Consistency::sync, 3, 2);
    plan.parallel.ps.servers = servers;
    PsCluster cluster(task, plan, zeros(task));
    const std::vector<float> w = cluster.run();
    check_no_errors(cluster);
    REQUIRE(w.size() == zeros(task).size());
    CHECK(distance(w, train_alone(task, plan)) < 1e-4);
    CHECK(cluster.final->updates == 32);
    CHECK(cluster.final->position == 1000);
    CHECK(cluster.final->samples == 1000);
    // The server's momentum came along, the buffers are the workers' mean.
    CHECK(sum_of_squares(cluster.first_moment) > 0);
    CHECK(cluster.buffers[0] == doctest::Approx(1).epsilon(0.35));
    CHECK(cluster.buffers[1] == doctest::Approx(1));
  }
}

TEST_CASE("a parameter server works over CURVE as it does without") {
  const PsTask task(300, 10, 7);
  PsPlan plan = task_plan(task, Consistency::sync, 2, 1);
  plan.parallel.ps.servers = 2;
  PsCluster cluster(task, plan, zeros(task), true);
  CHECK(cluster.endpoint(0).find("tcp://") == 0);
  const std::vector<float> w = cluster.run();
  check_no_errors(cluster);
  REQUIRE(!w.empty());
  CHECK(distance(w, train_alone(task, plan)) < 1e-4);
}

TEST_CASE("ssp and async come close to sync in accuracy") {
  const PsTask task(2000, 20, 2);
  const auto accuracy = [&](const std::vector<float>& w) {
    return static_cast<double>(task.judge(w).right) / 2000;
  };
  const double sync =
      accuracy(train_alone(task, task_plan(task, Consistency::sync, 1, 3)));
  CHECK(sync > 0.85);
  for (const auto consistency : {Consistency::ssp, Consistency::async}) {
    for (const auto compensation :
         {Compensation::none, Compensation::constant, Compensation::adaptive}) {
      PsPlan plan = task_plan(task, consistency, 4, 3);
      plan.parallel.ps.servers = 2;
      plan.parallel.ps.compensation = compensation;
      PsCluster cluster(task, plan, zeros(task));
      const std::vector<float> w = cluster.run();
      check_no_errors(cluster);
      REQUIRE(!w.empty());
      CHECK(accuracy(w) > sync - 0.02);
      CHECK(cluster.final->samples == 6000);
    }
  }
}

TEST_CASE("a worker that dies over sockets is missed by nobody") {
  const PsTask task(1000, 10, 3);
  for (const auto consistency : {Consistency::sync, Consistency::ssp}) {
    PsPlan plan = task_plan(task, consistency, 3, 2);
    plan.parallel.ps.servers = 2;
    PsCluster cluster(task, plan, zeros(task));
    std::atomic<int> count = 0;
    cluster.before_gradient = [&](int member, const ps::Grant& /*grant*/) {
      if (member == 1 && ++count == 5) {
        throw Error(ErrorKind::temporary, "dies");
      }
    };
    cluster.run();
    CHECK(cluster.errors == std::vector<std::string>{"dies"});
    REQUIRE(cluster.final.has_value());
    CHECK(cluster.final->samples == 2000);
  }
}

TEST_CASE("a loss that is no number reaches every worker as diverged") {
  const PsTask task(1000, 10, 4);
  PsPlan plan = task_plan(task, Consistency::async, 3, 2);
  plan.parallel.ps.servers = 2;
  std::vector<float> start = zeros(task);
  start[3] = std::numeric_limits<float>::quiet_NaN();
  PsCluster cluster(task, plan, start);
  cluster.run();
  CHECK(cluster.errors.size() == 5);
  for (const std::string& error : cluster.errors) {
    CHECK(error.find("diverged: the gradient's norm became") == 0);
  }
}

TEST_CASE("a server that never comes is named") {
  SocketDirectory folder;
  SocketContext context;
  PsWorkerOptions options;
  options.parameters = 100;
  options.runs = {{0, 100, 0}};
  options.servers = {{folder.endpoint("nobody"), std::nullopt}};
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

TEST_CASE("a follower without server 0 and a lead without workers say so") {
  SmallStep small(2);
  for (const int server : {0, 1}) {
    PsServerOptions options;
    options.server = server;
    options.servers = server + 1;
    options.listen.local = small.folder.endpoint("s" + std::to_string(server));
    options.server0 = PsAddress{small.folder.endpoint("nobody"), std::nullopt};
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
                        ? "member 0 has not come"
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
  for (int i = 0; i < 20; ++i) server->poll(std::chrono::milliseconds(10));
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
      say(ps::Grant{.session = 1, .ticket = i + 1, .clock = i, .size = 1});
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
  Socket socket_{context_, Socket::Kind::router, ps::kMaxMessageBytes};
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
  CHECK(server.pushes(kOwn, std::chrono::seconds(20)) == kOwn);
  CHECK(server.pushes(kOwn + 1, std::chrono::milliseconds(300)) == kOwn);
  server.serve(kOwn);
  CHECK(server.pushes(2 * kOwn, std::chrono::seconds(20)) == 2 * kOwn);
  server.serve(2 * kOwn);
  CHECK(server.pushes(9, std::chrono::seconds(20)) == 9);
  server.finish();
  thread.join();
}

namespace {

// Sends what is no message, and messages of nobody, as long as it lives.
class Vandal {
 public:
  explicit Vandal(const std::string& endpoint)
      : thread_([this, endpoint] { run(endpoint); }) {}
  ~Vandal() {
    over_ = true;
    thread_.join();
  }

 private:
  void run(const std::string& endpoint) {
    SocketContext context;
    Socket socket(context, Socket::Kind::dealer);
    socket.connect(endpoint);
    Rng rng(1);
    while (!over_) {
      Frames frames;
      for (uint64_t i = rng.below(3) + 1; i > 0; --i) {
        std::string bytes(rng.below(60), '\0');
        for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
        if (rng.below(2) == 0) bytes.insert(0, "dps1");
        frames.push_back(std::move(bytes));
      }
      // Without a hello it is nobody, whatever it says.
      socket.send(frames);
      socket.send(ps::encode(ps::Push{.session = 1, .ticket = 1}));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("garbage at a parameter server's socket changes nothing") {
  const PsTask task(500, 10, 6);
  for (const int vandalized : {0, 1}) {
    PsPlan plan = task_plan(task, Consistency::sync, 2, 1);
    plan.parallel.ps.servers = 2;
    PsCluster cluster(task, plan, zeros(task));
    const Vandal vandal(cluster.endpoint(vandalized));
    const std::vector<float> w = cluster.run();
    check_no_errors(cluster);
    REQUIRE(!w.empty());
    CHECK(distance(w, train_alone(task, plan)) < 1e-4);
  }
}

namespace {

// A member of a step that says what a test wants.
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
    while (system_clock().now() - begin < std::chrono::seconds(20)) {
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
  Socket socket_{context_, Socket::Kind::dealer, ps::kMaxMessageBytes};
};

}  // namespace

TEST_CASE("a dead worker's gradient that arrives late holds nobody up") {
  SmallStep small(1);
  PsServerOptions options;
  options.servers = 2;
  options.listen.local = small.folder.endpoint("server");
  options.patience = std::chrono::milliseconds(300);
  const auto lead = make_ps_server(small.context, options);
  lead->begin(small.step);
  Puppet follower(*lead);
  Puppet worker(*lead);
  const int64_t parameters = small.task.parameters();
  follower.say(ps::Follow{.step = 1, .server = 1, .parameters = parameters});
  const uint64_t session = follower.hear<ps::Lead>().session;
  worker.say(ps::Hello{.nonce = 5, .step = 1, .parameters = parameters});
  follower.say(ps::Present{.session = session, .nonce = 5});
  const int64_t ticket = worker.hear<ps::Grant>().ticket;
  lead->remove(0);
  follower.say(ps::Arrived{.session = session, .ticket = ticket});
  const MonoTime begin = system_clock().now();
  while (system_clock().now() - begin < std::chrono::milliseconds(2500)) {
    lead->poll(std::chrono::milliseconds(50));  // it would throw
  }
  CHECK(lead->awaited() == -1);
}
