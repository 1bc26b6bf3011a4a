// The coordinator's registry of agents, fed with messages that are well-formed,
// mostly fit what the agents were told, and sometimes do not. Each lease ends at
// most once, and says something only while it lives. Messages come as frames,
// without a socket: that is what takes time.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "choices.h"

#include "dtune/cluster/agent_registry.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own
using fuzz::Choices;
using std::chrono::milliseconds;

constexpr int kPeers = 3;
constexpr int kSlots = 3;
constexpr size_t kMostTurns = 24;
using Lease = std::pair<TrialId, Attempt>;

// Hands over what peers have said; what they are sent is encoded, and dropped.
class Frontdoor final : public AgentTransport {
 public:
  void say(int peer, Frames frames) {
    frames.insert(frames.begin(), std::to_string(peer));
    waiting_.push_back(std::move(frames));
  }
  void poll(Duration /*patience*/, Wakeup& /*wakeup*/,
            const std::function<void(Frames)>& handle) override {
    for (Frames& frames : std::exchange(waiting_, {})) {
      handle(std::move(frames));
    }
  }
  bool send(Frames /*frames*/) override { return true; }
  const std::string& sender() const override { return none_; }
  bool is_local(const std::string& /*peer*/) const override { return true; }
  std::vector<std::string> take_notices() override { return {}; }
  std::string local_endpoint() const override { return "frames"; }
  std::string remote_endpoint() const override { return ""; }

 private:
  std::vector<Frames> waiting_;
  const std::string none_;
};

AgentRegistryOptions options_of(std::shared_ptr<Frontdoor> door) {
  AgentRegistryOptions options;
  options.transport = std::move(door);
  options.welcome.study_id = "fuzz";
  options.welcome.heartbeat_ns = 1'000'000'000;
  options.welcome.lease_ns = 5'000'000'000;
  options.welcome.grace_ns = 1'000'000'000;
  return options;
}

class Study {
 public:
  explicit Study(Choices& from)
      : from_(from), registry_(options_of(door_), clock_) {}

  void run() {
    for (size_t i = 0; i < kMostTurns && !from_.done(); ++i) {
      for (int peer = 0; peer < kPeers; ++peer) say(peer);
      deliver();
      if (from_.rarely(4)) {
        clock_.advance(milliseconds(500 << from_.below(4)));
      }
      std::vector<RegistryEvent> events;
      registry_.check(events);
      take(events);
      decide();
    }
    registry_.stop(from_.rarely(2));
    registry_.flush();
  }

 private:
  void say(int peer) {
    Frames frames;
    const uint64_t count = from_.below(6);
    for (uint64_t i = 0; i < count; ++i) {
      frames.push_back(encode(message_of(peer)));
      if (from_.rarely(32)) frames.back().resize(from_.below(20));
    }
    if (!frames.empty()) door_->say(peer, std::move(frames));
  }

  control::Message message_of(int peer) {
    const auto slot = static_cast<int>(from_.below(kSlots + 1));
    const Lease lease = lease_near(peer, slot);
    switch (from_.below(9)) {
      case 0:
        return control::Hello{
            .study_id = from_.rarely(8) ? "other" : "fuzz",
            .node = from_.text(),
            .agent =
                from_.rarely(8) ? "agent0" : "agent" + std::to_string(peer),
            .slots =
                from_.rarely(8) ? static_cast<int>(from_.below(9)) : kSlots,
            .pid = from_.number()};
      case 1:
      case 2:
        return control::SlotUp{.slot = slot, .pid = 1};
      case 3:
        return control::SlotDown{
            .slot = slot, .gone = from_.rarely(8), .detail = from_.text()};
      case 4:
      case 5:
        return report_of(slot, lease);
      case 6:
        return control::Ended{
            .slot = slot,
            .trial = lease.first,
            .attempt = lease.second,
            .outcome = static_cast<control::Outcome>(from_.below(4)),
            .detail = from_.text(),
            .exit_code = static_cast<int>(from_.below(3)) - 1};
      case 7:
        return control::Progress{.slot = slot,
                                 .trial = lease.first,
                                 .attempt = lease.second,
                                 .phase = "training",
                                 .activity = from_.below(200)};
      default:
        if (from_.rarely(4)) return control::Bye{from_.rarely(2), "leaves"};
        return control::Heartbeat{};
    }
  }

  control::Message report_of(int slot, const Lease& lease) {
    control::Report report{.slot = slot,
                           .trial = lease.first,
                           .attempt = lease.second,
                           .checkpointed = from_.rarely(2)};
    report.report.step = 1 + static_cast<int>(from_.below(4));
    report.report.metrics = {{"a", from_.real()}};
    report.report.seconds = 1;
    report.report.last = from_.rarely(8);
    return report;
  }

  // What the slot holds, mostly.
  Lease lease_near(int peer, int slot) {
    if (from_.rarely(8)) return {1 + from_.below(9), 1};
    for (const RegisteredSlot& one : registry_.slots()) {
      const bool its_own =
          registry_.agent_of(one).name == "agent" + std::to_string(peer);
      if (its_own && one.number == slot) return {one.trial, one.attempt};
    }
    return {0, 0};
  }

  void deliver() {
    std::vector<RegistryEvent> events;
    registry_.poll(milliseconds(0), wakeup_, events);
    take(events);
  }

  void take(const std::vector<RegistryEvent>& events) {
    for (const RegistryEvent& event : events) {
      if (const auto* done = std::get_if<StepDone>(&event)) {
        if (!live_.contains({done->report.trial, done->report.attempt})) {
          std::abort();
        }
      } else if (const auto* over = std::get_if<LeaseOver>(&event)) {
        if (live_.erase({over->ended.trial, over->ended.attempt}) != 1) {
          std::abort();
        }
      }
    }
  }

  void decide() {
    for (size_t i = 0; i < registry_.slots().size(); ++i) {
      const RegisteredSlot& slot = registry_.slots()[i];
      if (slot.state == SlotState::idle && !from_.rarely(4)) {
        assign(i);
      } else if (slot.state == SlotState::busy && from_.rarely(8)) {
        const Lease lease{slot.trial, slot.attempt};
        registry_.release(i, from_.rarely(2));
        if (slot.state != SlotState::releasing) live_.erase(lease);
      } else if (slot.state == SlotState::busy && from_.rarely(8)) {
        registry_.extend(i, static_cast<int>(from_.below(9)));
      } else if (slot.state == SlotState::busy && from_.rarely(16)) {
        registry_.kill(i, Reason::wall_clock, "too long");
      }
    }
  }

  void assign(size_t slot) {
    control::Assign order;
    order.trial = ++trials_;
    order.attempt = 1;
    order.horizon = 8;
    order.target = 1 + static_cast<int>(from_.below(4));
    live_.insert({order.trial, order.attempt});
    registry_.assign(slot, order);
  }

  Choices& from_;
  ManualClock clock_;
  const std::shared_ptr<Frontdoor> door_ = std::make_shared<Frontdoor>();
  AgentRegistry registry_;
  Wakeup wakeup_;
  TrialId trials_ = 0;
  std::set<Lease> live_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices from(data, size);
  Study(from).run();
  return 0;
}
