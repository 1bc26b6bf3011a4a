// A coordinator on a thread of its own, and an agent that sends what a test sets.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/toy.h"
#include "store/memory_store.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/socket.h"
#include "dtune/store/trial_store.h"
#include "dtune/tuner/factory.h"

namespace dtune::test {

inline constexpr Duration kWirePatience = std::chrono::seconds(90);

// An agent of one slot, and its worker, that send what a test sets.
class Script {
 public:
  explicit Script(const std::string& endpoint, const std::string& name = "a")
      : name_(name), socket_(context_, Socket::Kind::dealer) {
    socket_.connect(endpoint);
  }

  void send(const control::Message& message) { send_raw(encode(message)); }
  void send_raw(const std::string& bytes) { socket_.send(Frames{bytes}); }

  void join() {
    control::Hello hello;
    hello.study_id = "wire";
    hello.node = hello.agent = name_;
    send(hello);
    expect<control::Welcome>();
    send(control::SlotUp{0, 1});
  }

  void report(const control::Assign& lease, int step, double value = 0.5) {
    control::Report report;
    report.trial = lease.trial;
    report.attempt = lease.attempt;
    report.report.step = step;
    report.report.metrics = {{"val_accuracy", value}};
    send(report);
  }

  // The next message of this type; heartbeats and all else are skipped.
  template <class T>
  T expect() {
    return std::get<T>(expect_one_of<T>());
  }

  template <class... T>
  control::Message expect_one_of() {
    const auto end = std::chrono::steady_clock::now() + kWirePatience;
    while (std::chrono::steady_clock::now() < end) {
      while (!inbox_.empty()) {
        const control::Message message = decode(inbox_.front());
        inbox_.erase(inbox_.begin());
        if ((std::holds_alternative<T>(message) || ...)) return message;
      }
      PollSet polls;
      polls.add(socket_);
      polls.wait(std::chrono::milliseconds(20));
      send(control::Heartbeat{});
      if (auto frames = socket_.receive()) inbox_ = *frames;
    }
    throw Error(ErrorKind::comm, "the message that is expected did not come");
  }

 private:
  const std::string name_;
  SocketContext context_;
  Socket socket_;
  Frames inbox_;
};

class Notices final : public ProgressSink {
 public:
  void on_notice(const std::string& text) override { all += text + "\n"; }
  std::string all;
};

// Runs a coordinator of `trials` trials against `script` on a thread.
struct Stage {
  SocketDirectory sockets;
  TemporaryDirectory folder;
  Study study;
  std::unique_ptr<TrialStore> store = test::make_memory_store();
  Notices sink;
  StudyOutcome outcome;
  std::string problem;

  explicit Stage(int trials) {
    Recipe recipe = toy::recipe(trials);
    recipe.final_training.enabled = false;
    study = toy::study(recipe, "wire");
    study.horizon = 2;
  }

  template <class Act>
  void run(Act act) {
    toy::ListSampler sampler({toy::point(0.5)});
    const auto scheduler = make_scheduler(study.recipe, study.horizon);
    CoordinatorOptions options;
    // Not "ipc", where agents are known by their process.
    options.endpoint = "tcp://127.0.0.1:*";
    options.checkpoints = folder.path() / "checkpoints";
    options.agent_timeout = kWirePatience;
    Coordinator coordinator(study, *store, sampler, *scheduler, sink,
                            system_clock(), options);
    std::thread thread([&] {
      try {
        act(coordinator.endpoint());
      } catch (const std::exception& e) {
        problem = e.what();
      }
    });
    const std::atomic<int> never{0};
    outcome = coordinator.run(never);
    thread.join();
    CHECK(problem == "");
  }
};

}  // namespace dtune::test
