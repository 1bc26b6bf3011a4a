// A coordinator against a scripted agent: what it does with messages that come
// late, twice, broken or from nowhere.
#include <chrono>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/scripted_agent.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/socket.h"
#include "dtune/store/trial_store.h"
#include "dtune/tuner/factory.h"

using namespace dtune;  // NOLINT: a test

using test::Script;
using test::Stage;

TEST_CASE("a report that comes twice counts once") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    const auto lease = agent.expect<control::Assign>();
    agent.report(lease, 1);
    agent.report(lease, 1);
    agent.report(lease, 2);
    agent.report(lease, 2);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trial(1).curve.size() == 2);
  CHECK(stage.store->load_trials().front().curve.size() == 2);
}

TEST_CASE(
    "a step beyond the horizon is acknowledged, but none of the study's") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    const auto lease = agent.expect<control::Assign>();
    for (int step = 1; step <= 4; ++step) agent.report(lease, step);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trial(1).curve.size() == 2);
  CHECK(stage.store->load_trials().front().curve.size() == 2);
}

TEST_CASE("what an old attempt says is dropped and acknowledged") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    const auto first = agent.expect<control::Assign>();
    control::Ended ended;
    ended.trial = first.trial;
    ended.attempt = first.attempt;
    ended.outcome = control::Outcome::failed;
    ended.reason = Reason::killed;
    agent.send(ended);
    const auto second = agent.expect<control::Assign>();
    CHECK(second.trial == first.trial);
    CHECK(second.attempt == first.attempt + 1);
    agent.report(first, 1, 0.9);  // late
    CHECK(agent.expect<control::Ack>().attempt == first.attempt);
    agent.report(second, 1, 0.1);
    agent.report(second, 2, 0.1);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trial(1).curve.front().metrics.at("val_accuracy") == 0.1);
}

TEST_CASE(
    "garbage, other versions and unknown senders do not disturb a study") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    const auto lease = agent.expect<control::Assign>();
    {
      Script stranger(endpoint, "stranger");
      stranger.report(lease, 1, 9.0);
      CHECK(stranger.expect<control::Bye>().again);
      stranger.send_raw(
          "\x93\x09\xa3"
          "ack\x80");
      // Its heartbeats are answered, too.
      while (stranger.expect<control::Bye>().why.find("protocol version 9") ==
             std::string::npos) {
      }
      control::Hello hello;
      hello.study_id = "another";
      stranger.send(hello);
      while (stranger.expect<control::Bye>().why.find("not 'another'") ==
             std::string::npos) {
      }
      stranger.send_raw(std::string(wire::kMaxFrameBytes + 1, 'x'));
    }
    agent.send_raw("");
    agent.send_raw("garbage");
    agent.send_raw(encode(control::Stop{}).substr(0, 5));
    control::Report wrong_slot;
    wrong_slot.slot = 5;
    wrong_slot.trial = lease.trial;
    wrong_slot.attempt = lease.attempt;
    wrong_slot.report.step = 1;
    agent.send(wrong_slot);
    agent.report({.slot = 0, .trial = 1'000'000, .attempt = 1}, 1);
    agent.report(lease, 1);
    agent.report(lease, 2);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trials.size() == 1);
  CHECK(stage.study.trial(1).curve.front().metrics.at("val_accuracy") == 0.5);
}

TEST_CASE("an agent that connects anew keeps its leases") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    control::Assign lease;
    {
      Script agent(endpoint);
      agent.join();
      lease = agent.expect<control::Assign>();
      agent.report(lease, 1);
      agent.expect<control::Ack>();
    }
    Script agent(endpoint);  // the same name over another connection
    agent.join();
    agent.report(lease, 2);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trial(1).attempt == 1);
}

TEST_CASE("an agent that falls silent loses its leases to another") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script silent(endpoint, "silent");
    silent.join();
    const auto first = silent.expect<control::Assign>();
    Script other(endpoint, "other");
    other.join();
    const auto second = other.expect<control::Assign>();
    CHECK(second.trial == first.trial);
    CHECK(second.attempt == first.attempt + 1);
    silent.report(first, 1, 0.9);  // back from a partition
    CHECK(silent.expect<control::Bye>().again);
    other.report(second, 1, 0.1);
    other.report(second, 2, 0.1);
    other.expect<control::Stop>();
    other.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trial(1).reason == Reason::horizon);
  CHECK(stage.study.trial(1).failures == 0);  // it was the node's
  CHECK(stage.study.trial(1).curve.front().metrics.at("val_accuracy") == 0.1);
}

TEST_CASE("a trial that failed on a node is tried on another") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script first(endpoint, "first");
    first.join();
    const auto lease = first.expect<control::Assign>();
    Script other(endpoint, "other");
    other.join();
    other.report(lease, 1);  // not its own: the answer says that its slot is up
    other.expect<control::Ack>();
    control::Ended ended;
    ended.trial = lease.trial;
    ended.attempt = lease.attempt;
    ended.outcome = control::Outcome::failed;
    ended.reason = Reason::crashed;
    ended.exit_code = 1;
    first.send(ended);
    const auto second = other.expect<control::Assign>();
    CHECK(second.trial == lease.trial);
    other.report(second, 1);
    other.report(second, 2);
    for (Script* agent : {&first, &other}) {
      agent->expect<control::Stop>();
      agent->send(control::Bye{});
    }
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trial(1).failures == 1);
  CHECK(stage.study.trial(1).node == "other");
}

// Whether the checkpoint of a trial is there after each of two leases that begin
// at its first step and end for `reason` before they report another.
static std::vector<bool> kept_after(Reason reason) {
  Stage stage(1);
  std::vector<bool> kept;
  stage.run([&](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    auto lease = agent.expect<control::Assign>();
    write_file_atomic(lease.checkpoint, "1", false);
    agent.report(lease, 1);
    agent.send(control::Bye{});  // no failure: its node leaves
    agent.join();
    lease = agent.expect<control::Assign>();
    for (int i = 0; i < 2; ++i) {
      CHECK(lease.resume_step == 1);
      control::Ended ended;
      ended.trial = lease.trial;
      ended.attempt = lease.attempt;
      ended.outcome = control::Outcome::failed;
      ended.reason = reason;
      agent.send(ended);
      lease = agent.expect<control::Assign>();
      kept.push_back(std::filesystem::exists(lease.checkpoint));
    }
    agent.report(lease, 2);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  return kept;
}

TEST_CASE("a checkpoint from which no step succeeds is doubted") {
  CHECK(kept_after(Reason::crashed) == std::vector<bool>{false, false});
  // The first time it may be the machine, or another rank.
  CHECK(kept_after(Reason::killed) == std::vector<bool>{true, false});
  CHECK(kept_after(Reason::lease_lapsed) == std::vector<bool>{true, false});
}

TEST_CASE("a step out of order ends the lease") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    const auto lease = agent.expect<control::Assign>();
    agent.report(lease, 2);
    const auto order = agent.expect<control::Kill>();
    control::Ended ended;
    ended.trial = lease.trial;
    ended.attempt = lease.attempt;
    ended.outcome = control::Outcome::failed;
    ended.reason = order.reason;
    ended.detail = order.why;
    agent.send(ended);
    const auto second = agent.expect<control::Assign>();
    agent.report(second, 1);
    agent.report(second, 2);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.study.trial(1).failures == 1);
}

// Each lease's steps twice, together with what its trial's earlier leases have
// said; every third time in any order.
TEST_CASE("messages in any order and twice over cost leases and no results") {
  constexpr int kTrials = 12;
  Stage stage(kTrials);
  stage.study.recipe.limits.retries = 1000;
  int killed = 0;
  stage.run([&](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    Rng rng(8);
    std::vector<std::pair<control::Assign, int>> before;
    while (true) {
      const control::Message message =
          agent.expect_one_of<control::Assign, control::Kill, control::Stop>();
      if (std::holds_alternative<control::Stop>(message)) break;
      if (const auto* order = std::get_if<control::Kill>(&message)) {
        ++killed;
        control::Ended ended;
        ended.trial = order->trial;
        ended.attempt = order->attempt;
        ended.outcome = control::Outcome::failed;
        ended.reason = order->reason;
        agent.send(ended);
        agent.send(ended);
        continue;
      }
      const auto& lease = std::get<control::Assign>(message);
      std::vector<std::pair<control::Assign, int>> said = before;
      for (const int step : {1, 1, 2, 2}) said.emplace_back(lease, step);
      if (rng.below(3) == 0) {
        for (size_t i = said.size(); i > 1; --i) {
          std::swap(said[i - 1], said[rng.below(i)]);
        }
      }
      for (const auto& [whose, step] : said) {
        agent.report(whose, step, 0.25 * step);
      }
      before = {{lease, 1}, {lease, 2}};
    }
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(killed > 0);
  for (const Trial& trial : stage.store->load_trials()) {
    CAPTURE(trial.id);
    CHECK(trial.state == TrialState::complete);
    REQUIRE(trial.curve.size() == 2);
    CHECK(trial.curve[0].metrics.at("val_accuracy") == 0.25);
    CHECK(trial.curve[1].metrics.at("val_accuracy") == 0.5);
  }
  CHECK(stage.store->load_trials().size() == kTrials);
}

TEST_CASE("a report that cannot be read ends its lease, not the study") {
  Stage stage(1);
  stage.run([](const std::string& endpoint) {
    Script agent(endpoint);
    agent.join();
    auto lease = agent.expect<control::Assign>();
    for (const double seconds :
         {std::numeric_limits<double>::quiet_NaN(), -1.0, 1e300}) {
      control::Report broken;
      broken.trial = lease.trial;
      broken.attempt = lease.attempt;
      broken.report.step = 1;
      broken.report.metrics = {{"val_accuracy", 0.5}};
      broken.report.seconds = seconds;
      agent.send(broken);
      const auto order = agent.expect<control::Kill>();
      CHECK(order.attempt == lease.attempt);
      CHECK(order.why.find("'seconds'") != std::string::npos);
      control::Ended ended;
      ended.trial = lease.trial;
      ended.attempt = lease.attempt;
      ended.outcome = control::Outcome::temporary;  // try again
      ended.reason = Reason::node_lost;
      agent.send(ended);
      agent.send(control::SlotUp{0, 1});
      lease = agent.expect<control::Assign>();
    }
    agent.report(lease, 1);
    agent.report(lease, 2);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.store->load_trials().front().curve.size() == 2);
}

TEST_CASE("a study that no process works on says so") {
  Stage stage(1);
  Recipe recipe = stage.study.recipe;
  toy::ListSampler sampler({toy::point(0.5)});
  const auto scheduler = make_scheduler(recipe, 2);
  ProgressSink sink;
  CoordinatorOptions options;
  options.endpoint = stage.sockets.endpoint("c");
  options.agent_timeout = std::chrono::milliseconds(100);
  Coordinator coordinator(stage.study, *stage.store, sampler, *scheduler, sink,
                          system_clock(), options);
  const std::atomic<int> never{0};
  const StudyOutcome outcome = coordinator.run(never);
  CHECK(outcome.state == StudyState::failed);
  CHECK(outcome.why.find("no agent has joined within 100ms") == 0);
}
