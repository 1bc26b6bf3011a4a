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

TEST_CASE("garbage at a parameter server's socket changes nothing") {
  const PsTask task(500, 10, 6);
  const PsPlan plan = task_plan(task, Consistency::sync, 2, 1);
  PsCluster cluster(task, plan, zeros(task));
  std::atomic<bool> over = false;
  std::thread vandal([&] {
    SocketContext context;
    Socket socket(context, Socket::Kind::dealer);
    socket.connect(cluster.endpoint(0));
    Rng rng(1);
    while (!over) {
      Frames frames;
      for (uint64_t i = rng.below(3) + 1; i > 0; --i) {
        std::string bytes(rng.below(60), '\0');
        for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
        if (rng.below(2) == 0) bytes = "dps1" + bytes;
        frames.push_back(std::move(bytes));
      }
      // Without a hello it is nobody, whatever it says.
      socket.send(frames);
      socket.send(ps::encode(ps::Push{.session = 1, .ticket = 1}));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  const std::vector<float> w = cluster.run();
  over = true;
  vandal.join();
  check_no_errors(cluster);
  REQUIRE(!w.empty());
  CHECK(distance(w, train_alone(task, plan)) < 1e-4);
}
