// A coordinator whose study's disk is full.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/scripted_agent.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

// A store whose disk is full for a while: as SQLite's, it keeps what it is
// given and says so once per attempt to write.
class FullDisk final : public TrialStore {
 public:
  std::atomic<bool> full{false};
  std::atomic<int> refused{0};

  void put_study(const StudyRow& row) override {
    inner_->put_study(row);
    complain();
  }
  void put_trial(const Trial& trial) override {
    inner_->put_trial(trial);
    complain();
  }
  void put_report(TrialId trial, Attempt attempt, const StepReport& report,
                  std::function<void()> on_commit) override {
    inner_->put_report(trial, attempt, report, std::move(on_commit));
    complain();
  }
  void put_event(const TrialEvent& event) override {
    inner_->put_event(event);
    complain();
  }
  void put_decision(const Decision& decision) override {
    inner_->put_decision(decision);
    complain();
  }
  void put_session(const Session& session) override {
    inner_->put_session(session);
    complain();
  }
  void put_rank_round(const RankRound& rank) override {
    inner_->put_rank_round(rank);
    complain();
  }
  void flush() override { complain(); }
  std::optional<StudyRow> load_study() override { return inner_->load_study(); }
  std::vector<Trial> load_trials(CurvePart part) override {
    return inner_->load_trials(part);
  }
  std::vector<TrialEvent> load_events(TrialId trial) override {
    return inner_->load_events(trial);
  }
  std::vector<Decision> load_decisions() override {
    return inner_->load_decisions();
  }
  StudyRecords load_records() override { return inner_->load_records(); }

 private:
  void complain() {
    if (!full) return;
    ++refused;
    throw Error(ErrorKind::temporary, "study.db: no space left on the disk");
  }

  std::unique_ptr<TrialStore> inner_ = test::make_memory_store();
};

}  // namespace

TEST_CASE("a full disk holds new leases back, and nothing is lost") {
  test::Stage stage(2);
  auto owned = std::make_unique<FullDisk>();
  FullDisk& disk = *owned;
  stage.store = std::move(owned);
  stage.run([&](const std::string& endpoint) {
    test::Script agent(endpoint);
    agent.join();
    const auto first = agent.expect<control::Assign>();
    disk.full = true;
    agent.report(first, 1);
    agent.report(first, 2);  // done, but the next must wait
    agent.expect<control::Cut>();
    const int before = disk.refused;
    while (disk.refused < before + 2) {  // it tries about once a second
      agent.send(control::Heartbeat{});
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    CHECK(stage.store->load_trials().size() == 1);
    disk.full = false;
    const auto second = agent.expect<control::Assign>();
    CHECK(second.trial == 2);
    agent.report(second, 1);
    agent.report(second, 2);
    agent.expect<control::Stop>();
    agent.send(control::Bye{});
  });
  CHECK(stage.outcome.state == StudyState::finished);
  CHECK(stage.store->load_trials().size() == 2);
  CHECK(stage.sink.all ==
        "study.db: no space left on the disk; no trial is started until the "
        "database can be written again, nothing is lost so far\n"
        "the database can be written again; going on\n");
}
