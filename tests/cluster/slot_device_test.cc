#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/clock.h"
#include "dtune/cluster/agent_workers.h"
#include "dtune/cluster/protocol.h"
#include "dtune/cluster/slot_process.h"
#include "dtune/comm/socket.h"

using namespace dtune;  // NOLINT: a test

namespace {

// What the worker of a slot finds in its environment.
std::string environment_of(int slot, const std::vector<std::string>& devices,
                           int slots) {
  std::string line;
  SlotOptions options;
  options.argv = {"sh", "-c",
                  "echo \"$CUDA_VISIBLE_DEVICES $DTUNE_SLOT_DEVICE "
                  "$DTUNE_DEVICE_SHARE\"; sleep 60",
                  "sh"};
  options.slots = slots;
  options.devices = devices;
  options.log_line = [&line](int, const std::string& text) { line = text; };
  SlotProcess process(slot, options, [](const control::Message&) {});
  while (line.empty()) {
    process.tick(system_clock().now());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  process.shut_down(true, system_clock().now());
  return line;
}

}  // namespace

TEST_CASE(
    "a slot sees its own GPU alone, and shares it with the others on it") {
  CHECK(environment_of(0, {"GPU-a", "MIG-b"}, 2) == "GPU-a GPU-a 1");
  CHECK(environment_of(1, {"GPU-a", "MIG-b"}, 2) == "MIG-b MIG-b 1");
  // Three slots on two GPUs: 0 and 2 are on the first.
  CHECK(environment_of(2, {"0", "1"}, 3) == "0 0 0.5");
  CHECK(environment_of(1, {"0", "1"}, 3) == "1 1 1");
  CHECK(environment_of(0, {"3", "3", "3"}, 3) == "3 3 0.333333");
}

TEST_CASE("a long line of a worker loses nothing") {
  constexpr size_t kBytes = 10'000;
  std::string text;
  SlotOptions options;
  options.argv = {"sh", "-c", "head -c 10000 /dev/zero | tr '\\0' x", "sh"};
  options.slots = 1;
  options.log_line = [&text](int, const std::string& line) { text += line; };
  bool ended = false;
  SlotProcess process(0, options,
                      [&ended](const control::Message&) { ended = true; });
  while (!ended) {
    process.tick(system_clock().now());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(text == std::string(kBytes, 'x'));
}

TEST_CASE("each fused trial of a process that dies is tried again") {
  SlotOptions options;
  options.argv = {"sh", "-c", "sleep 0.2; echo out of memory; exit 3", "sh"};
  options.slots = options.seats = 2;
  std::vector<Reason> reasons;
  SlotProcess process(0, options, [&](const control::Message& message) {
    if (const auto* one = std::get_if<control::Ended>(&message)) {
      reasons.push_back(one->reason);
    }
  });
  process.tick(system_clock().now());
  for (const int slot : {0, 1}) {
    process.on_slot_up(slot);
    control::Assign assign;
    assign.slot = slot;
    assign.trial = 10 + slot;
    assign.attempt = 1;
    process.on_assign(assign);
  }
  while (reasons.size() < 2) {
    process.tick(system_clock().now());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(reasons == std::vector<Reason>{Reason::killed, Reason::killed});
  process.shut_down(true, system_clock().now());
}

TEST_CASE("a fused trial that is killed with another one loses no attempt") {
  SlotOptions options;
  options.argv = {"sh", "-c", "sleep 60", "sh"};
  options.slots = 4;
  options.seats = 2;
  options.devices = {"0", "1"};
  std::vector<control::Ended> ended;
  std::vector<int> down;
  SlotProcess process(1, options, [&](const control::Message& message) {
    if (const auto* one = std::get_if<control::Ended>(&message)) {
      ended.push_back(*one);
    }
    if (const auto* one = std::get_if<control::SlotDown>(&message)) {
      down.push_back(one->slot);
    }
  });
  process.tick(system_clock().now());
  CHECK(process.slots() == std::vector<int>{2, 3});
  CHECK(process.slots_up().empty());
  for (const int slot : {2, 3}) {
    process.on_slot_up(slot);
    control::Assign assign;
    assign.slot = slot;
    assign.trial = 10 + slot;
    assign.attempt = 1;
    process.on_assign(assign);
    CHECK(process.holds(slot, 10 + slot, 1));
  }
  process.kill(Reason::lease_lapsed, "it hangs", system_clock().now(), 3);
  while (down.size() < 2) {
    process.tick(system_clock().now());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(down == std::vector<int>{2, 3});
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].trial == 12);
  CHECK(ended[0].outcome == control::Outcome::temporary);
  CHECK(ended[1].trial == 13);
  CHECK(ended[1].outcome == control::Outcome::failed);
  CHECK(ended[1].reason == Reason::lease_lapsed);
  process.shut_down(true, system_clock().now());
}

// Else it would go on until the grace for its end is over.
TEST_CASE("a worker that comes up while its agent ends is asked to stop") {
  const SocketDirectory directory;
  const SocketContext context;
  SlotOptions options;
  options.argv = {"sh", "-c", "echo $$; exec sleep 60", "sh"};
  options.endpoint = directory.endpoint("agent");
  options.slots = 1;
  std::string pid;
  options.log_line = [&pid](int, const std::string& line) { pid = line; };
  AgentWorkers workers(context, options, [](const std::string&) {});
  control::Welcome welcome;
  welcome.study_id = "late";
  workers.on_welcome(welcome, encode(welcome), system_clock().now());
  while (pid.empty()) {
    workers.tick(system_clock().now());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  workers.close(false);
  Socket worker(context, Socket::Kind::dealer);
  worker.connect(options.endpoint);
  worker.send(Frames{encode(control::SlotUp{0, std::stoi(pid), ""})});
  std::optional<Frames> answer;
  while (!answer) {
    workers.receive();
    workers.flush();
    answer = worker.receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(std::holds_alternative<control::Stop>(decode(answer->front())));
  workers.shut_down(true, system_clock().now());
}
