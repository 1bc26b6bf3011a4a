#include "store/memory_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace dtune::test {
namespace {

class MemoryStore final : public TrialStore {
 public:
  void put_study(const StudyRow& row) override {
    const std::lock_guard lock(mutex_);
    if (study_ && study_->id != row.id) {
      throw Error(ErrorKind::store,
                  fmt::format("the store holds another study, '{}' ({})",
                              study_->name, study_->id));
    }
    study_ = row;
  }

  void put_trial(const Trial& trial) override {
    const std::lock_guard lock(mutex_);
    Trial& kept = trials_[trial.id];
    kept = trial;
    kept.curve.clear();
  }

  void put_report(TrialId trial, Attempt attempt, const StepReport& report,
                  std::function<void()> on_commit) override {
    {
      const std::lock_guard lock(mutex_);
      check_known(trial);
      reports_.try_emplace({trial, report.step, attempt}, report);
    }
    if (on_commit) on_commit();
  }

  void put_event(const TrialEvent& event) override {
    const std::lock_guard lock(mutex_);
    check_known(event.trial);
    events_.push_back(event);
  }

  void put_decision(const Decision& decision) override {
    const std::lock_guard lock(mutex_);
    decisions_.try_emplace(decision.number, decision);
  }

  void put_session(const Session& session) override {
    const std::lock_guard lock(mutex_);
    sessions_.try_emplace(session.number, session);
  }

  void put_rank_round(const RankRound& rank) override {
    const std::lock_guard lock(mutex_);
    check_known(rank.trial);
    ranks_.try_emplace({rank.trial, rank.attempt, rank.round, rank.rank}, rank);
  }

  void flush() override {}

  std::optional<StudyRow> load_study() override {
    const std::lock_guard lock(mutex_);
    return study_;
  }

  // Curves are in memory as they are: leaving out parts would save nothing.
  std::vector<Trial> load_trials(CurvePart) override {
    const std::lock_guard lock(mutex_);
    std::map<TrialId, Trial> trials = trials_;
    for (const auto& [key, report] : reports_) {
      std::vector<StepReport>& curve = trials.at(std::get<0>(key)).curve;
      if (!curve.empty() && curve.back().step == report.step) curve.pop_back();
      curve.push_back(report);
    }
    std::vector<Trial> result;
    for (auto& [id, trial] : trials) result.push_back(std::move(trial));
    return result;
  }

  std::vector<TrialEvent> load_events(TrialId trial) override {
    const std::lock_guard lock(mutex_);
    std::vector<TrialEvent> result;
    for (const TrialEvent& event : events_) {
      if (trial == 0 || event.trial == trial) result.push_back(event);
    }
    return result;
  }

  std::vector<Decision> load_decisions() override {
    const std::lock_guard lock(mutex_);
    std::vector<Decision> result;
    for (const auto& [number, decision] : decisions_) {
      result.push_back(decision);
    }
    return result;
  }

  StudyRecords load_records() override {
    StudyRecords records;
    records.decisions = load_decisions();
    const std::lock_guard lock(mutex_);
    records.row = study_;
    for (const auto& [id, trial] : trials_) records.trials.push_back(trial);
    for (const auto& [n, session] : sessions_) {
      records.sessions.push_back(session);
    }
    for (const auto& [key, report] : reports_) {
      records.reports.push_back({std::get<0>(key), std::get<2>(key), report});
    }
    std::stable_sort(records.reports.begin(), records.reports.end(),
                     [](const RecordedReport& a, const RecordedReport& b) {
                       return a.report.sequence < b.report.sequence;
                     });
    records.events = events_;
    for (const auto& [key, rank] : ranks_) records.ranks.push_back(rank);
    return records;
  }

 private:
  void check_known(TrialId trial) const {
    if (trials_.count(trial) != 0) return;
    throw Error(ErrorKind::internal,
                fmt::format("a record of trial {} came before the trial (a bug "
                            "in dtune: please report it)",
                            trial));
  }

  std::mutex mutex_;
  std::optional<StudyRow> study_;
  std::map<TrialId, Trial> trials_;  // without their curves
  // A later attempt of a step follows the earlier ones.
  std::map<std::tuple<TrialId, int, Attempt>, StepReport> reports_;
  std::vector<TrialEvent> events_;
  std::map<int64_t, Decision> decisions_;
  std::map<int64_t, Session> sessions_;
  std::map<std::tuple<TrialId, Attempt, int64_t, int>, RankRound> ranks_;
};

}  // namespace

std::unique_ptr<TrialStore> make_memory_store() {
  return std::make_unique<MemoryStore>();
}

}  // namespace dtune::test
