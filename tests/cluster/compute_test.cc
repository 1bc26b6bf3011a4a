#include "dtune/cluster/compute.h"

#include <thread>

#include "cluster/toy.h"
#include "eventually.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/cluster/sidecar.h"
#include "dtune/comm/socket.h"

using namespace dtune;  // NOLINT: a test

namespace {

constexpr Duration kComputePatience = std::chrono::seconds(90);

// A compute thread with toy trials, spoken to as the coordinator would.
struct Bench {
  TemporaryDirectory folder;
  Wakeup wakeup;
  Compute compute{WorkerOptions{},
                  [](const Recipe&) { return toy::make_runner(); },
                  [this] { wakeup.notify(); }};
  std::vector<control::Message> inbox;

  Bench() {
    control::Welcome welcome;
    welcome.study_id = "s";
    welcome.session = "1";
    compute.post(welcome);
  }

  control::Assign assign(TrialId trial, Attempt attempt, int target,
                         int resume_step = 0,
                         const Point& point = toy::point(0.5)) {
    control::Assign out;
    out.trial = trial;
    out.attempt = attempt;
    out.point = point;
    out.horizon = 5;
    out.target = target;
    out.resume_step = resume_step;
    out.checkpoint = checkpoint(trial).string();
    return out;
  }

  std::filesystem::path checkpoint(TrialId trial) {
    return folder.path() / std::to_string(trial);
  }

  // The next message, which has to be of this type.
  template <class T>
  T next() {
    const auto end = std::chrono::steady_clock::now() + kComputePatience;
    while (inbox.empty() && std::chrono::steady_clock::now() < end) {
      inbox = compute.take_messages();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(!inbox.empty());
    const control::Message message = inbox.front();
    inbox.erase(inbox.begin());
    REQUIRE(std::holds_alternative<T>(message));
    return std::get<T>(message);
  }
};

}  // namespace

TEST_CASE("a lease is run to its target and no further") {
  Bench bench;
  bench.compute.post(bench.assign(1, 1, 2));
  CHECK(bench.next<control::Report>().report.step == 1);
  CHECK(bench.next<control::Report>().report.step == 2);
  CHECK(bench.compute.unacknowledged().size() == 2);
  bench.compute.acknowledged({0, 1, 1, 2});
  CHECK(bench.compute.unacknowledged().empty());
  bench.compute.post(control::Extend{0, 1, 1, 3});
  CHECK(bench.next<control::Report>().report.step == 3);
  bench.compute.post(control::Pause{0, 1, 1});
  const auto ended = bench.next<control::Ended>();
  CHECK(ended.outcome == control::Outcome::stopped);
  CHECK(ended.steps == 3);
}

TEST_CASE("a cut goes through while a step computes") {
  Bench bench;
  bench.compute.post(
      bench.assign(1, 1, 5, 0, toy::point(0.5, "learn", 1'000'000)));
  CHECK(
      eventually([&] { return bench.compute.progress().phase == "training"; }));
  bench.compute.post(control::Cut{0, 1, 1});
  const auto ended = bench.next<control::Ended>();
  CHECK(ended.outcome == control::Outcome::stopped);
  CHECK(ended.steps == 0);
}

TEST_CASE(
    "a checkpoint that is ahead of the database is reported, not trained") {
  Bench bench;
  bench.compute.post(bench.assign(1, 1, 3));
  for (int step = 1; step <= 3; ++step) bench.next<control::Report>();
  bench.compute.post(control::Cut{0, 1, 1});
  bench.next<control::Ended>();
  // The database has one step; the sidecar has all three.
  bench.compute.post(bench.assign(1, 2, 4, 1));
  for (int step = 2; step <= 4; ++step) {
    const auto report = bench.next<control::Report>();
    CHECK(report.report.step == step);
    CHECK(report.attempt == 2);
  }
}

TEST_CASE("a checkpoint that is behind the database is trained again") {
  Bench bench;
  write_file_atomic(bench.checkpoint(1), "1", false);
  bench.compute.post(bench.assign(1, 2, 4, 3));
  // The toy session says that it has one step: steps 2, 3, 4 come again.
  CHECK(bench.next<control::Report>().report.step == 2);
}

TEST_CASE("a checkpoint that nothing explains is not trusted") {
  Bench bench;
  write_file_atomic(bench.checkpoint(1), "4", false);
  bench.compute.post(bench.assign(1, 2, 2, 1));
  CHECK(bench.next<control::Report>().report.step == 1);
}

TEST_CASE("a checkpoint that cannot be read means a fresh start") {
  Bench bench;
  bench.compute.post(bench.assign(1, 2, 2, 1));  // there is none
  CHECK(bench.next<control::Report>().report.step == 1);
}

TEST_CASE("failures say why and leave the thread ready for the next trial") {
  Bench bench;
  bench.compute.post(bench.assign(1, 1, 5, 0, toy::point(0.5, "throw")));
  bench.next<control::Report>();
  auto ended = bench.next<control::Ended>();
  CHECK(ended.reason == Reason::diverged);
  CHECK(ended.detail == "loss is nan");
  bench.compute.post(bench.assign(2, 1, 5, 0, toy::point(0.5, "oom")));
  bench.next<control::Report>();
  CHECK(bench.next<control::Ended>().reason == Reason::out_of_memory);
  bench.compute.post(bench.assign(3, 1, 1));
  CHECK(bench.next<control::Report>().trial == 3);
}

TEST_CASE("another coordinator's welcome ends what an earlier one gave") {
  Bench bench;
  bench.compute.post(bench.assign(1, 1, 1));
  bench.next<control::Report>();
  control::Welcome welcome;
  welcome.study_id = "s";
  welcome.session = "2";
  bench.compute.post(welcome);
  bench.next<control::Ended>();
  bench.compute.post(bench.assign(2, 1, 1));
  CHECK(bench.next<control::Report>().trial == 2);
  CHECK(bench.compute.unacknowledged().size() == 1);
}
