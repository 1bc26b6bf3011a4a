#include "dtune/parameter_server/ps_server.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "eventually.h"
#include "ps_task.h"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include "dtune/base/descriptor.h"
#include "dtune/comm/endpoint.h"
#include "dtune/parameter_server/ps_rules.h"

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
    CHECK(cluster.final->totals.samples == 1000);
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
    return static_cast<double>(task.judge(w).correct) / 2000;
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
      CHECK(cluster.final->totals.samples == 6000);
    }
  }
}

TEST_CASE("the others go on when a worker dies over sockets") {
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
    CHECK(cluster.final->totals.samples == 2000);
  }
}

TEST_CASE("a worker that is held up holds no other up") {
  const PsTask task(1000, 10, 3);
  for (const auto consistency : {Consistency::sync, Consistency::ssp}) {
    PsPlan plan = task_plan(task, consistency, 3, 4);
    plan.parallel.ps.servers = 2;
    PsCluster cluster(task, plan, zeros(task));
    std::atomic<int> count = 0;
    std::atomic<int> others = 0;
    cluster.before_gradient = [&](int member, const ps::Grant& /*grant*/) {
      if (member != 1) {
        ++others;
      } else if (++count == 4) {
        // More than a batch, or the bound, lets the others do without it.
        const int before = others;
        CHECK(eventually([&] { return others > before + 40; }));
      }
    };
    const std::vector<float> w = cluster.run();
    check_no_errors(cluster);
    REQUIRE(!w.empty());
    CHECK(cluster.figures.left_out >= 1);
    CHECK(cluster.final->totals.samples == 4000);
    if (consistency == Consistency::sync) {
      CHECK(distance(w, train_alone(task, plan)) < 1e-4);
    }
  }
}

TEST_CASE("a loss that is not a number reaches every worker as diverged") {
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

namespace {

// Sends what is no message, and messages of unknown workers, as long as it
// lives.
class Vandal {
 public:
  explicit Vandal(const std::string& endpoint,
                  const SocketOptions& options = {},
                  const Frames& greeting = {})
      : thread_([=, this] { run(endpoint, options, greeting); }) {}
  ~Vandal() {
    over_ = true;
    thread_.join();
  }

 private:
  void run(const std::string& endpoint, const SocketOptions& options,
           const Frames& greeting) {
    SocketContext context;
    Socket socket(context, Socket::Kind::dealer, options);
    socket.connect(endpoint);
    Rng rng(1);
    while (!over_) {
      if (!greeting.empty()) socket.send(greeting);
      Frames frames;
      for (uint64_t i = rng.below(3) + 1; i > 0; --i) {
        std::string bytes(rng.below(60), '\0');
        for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
        if (rng.below(2) == 0) bytes.insert(0, "dps1");
        frames.push_back(std::move(bytes));
      }
      // Without a hello it is no worker, whatever it sends.
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

// Its gang's members have it from the gang's store.
TEST_CASE("a client without a parameter server's key takes no worker's place") {
  const PsTask task(300, 10, 7);
  const PsPlan plan = task_plan(task, Consistency::sync, 2, 1);
  PsCluster cluster(task, plan, zeros(task), true);
  SocketOptions options;
  options.client =
      CurveClient{generate_curve_keys().public_key, generate_curve_keys()};
  const Vandal stranger(cluster.endpoint(0), options,
                        ps::encode(ps::Hello{.nonce = 7,
                                             .step = 1,
                                             .member = 0,
                                             .parameters = task.parameters()}));
  const std::vector<float> w = cluster.run();
  check_no_errors(cluster);
  REQUIRE(!w.empty());
  CHECK(distance(w, train_alone(task, plan)) < 1e-4);
}

// It knows the servers' key, and is of the study, but not of this gang.
TEST_CASE("the key of another node takes no worker's place") {
  const PsTask task(300, 10, 7);
  const PsPlan plan = task_plan(task, Consistency::sync, 2, 1);
  PsCluster cluster(task, plan, zeros(task), true);
  SocketOptions options;
  const CurveKeys other = generate_curve_keys();
  options.client = CurveClient{cluster.server_key(), other};
  const Vandal stranger(cluster.endpoint(0), options,
                        ps::encode(ps::Hello{.nonce = 7,
                                             .step = 1,
                                             .member = 0,
                                             .parameters = task.parameters()}));
  std::vector<Refusal> refused;
  CHECK(eventually([&] {
    refused = cluster.take_refusals();
    return !refused.empty();
  }));
  const std::vector<float> w = cluster.run();
  check_no_errors(cluster);
  REQUIRE(!w.empty());
  CHECK(distance(w, train_alone(task, plan)) < 1e-4);
  REQUIRE(!refused.empty());
  CHECK(refused[0].public_key == other.public_key);
}

namespace {

// Connections that say the beginning of a message.
std::vector<Descriptor> strangers_at(const std::string& endpoint, int count) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(parse_tcp(endpoint)->port));
  std::vector<Descriptor> all;
  for (int i = 0; i < count; ++i) {
    Descriptor one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(one.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) ==
        0) {
      ::send(one.get(), "\xff", 1, MSG_NOSIGNAL);
    }
    all.push_back(std::move(one));
  }
  return all;
}

// That this process has.
int64_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace

TEST_CASE("unknown connections to a parameter server do not stop its gang") {
  constexpr int kStrangers = 600;
  const PsTask task(300, 10, 7);
  const PsPlan plan = task_plan(task, Consistency::sync, 2, 1);
  PsCluster cluster(task, plan, zeros(task), true);
  const int64_t before = open_files();
  const auto strangers = strangers_at(cluster.endpoint(0), kStrangers);
  // Its ends of them: those above the limit are closed.
  const auto own = [&] { return open_files() - before - kStrangers; };
  const int most = GatewayOptions().most_unknown;
  CHECK(eventually([&] { return own() >= most / 2 && own() <= most + 10; }));
  const std::vector<float> w = cluster.run();
  check_no_errors(cluster);
  REQUIRE(!w.empty());
  CHECK(distance(w, train_alone(task, plan)) < 1e-4);
  CHECK(own() <= most + 20);
}
