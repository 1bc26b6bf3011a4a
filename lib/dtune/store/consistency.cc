#include "dtune/store/consistency.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/store/final_result.h"

namespace dtune {
namespace {

[[noreturn]] void contradiction(const std::string& what) {
  throw Error(ErrorKind::data,
              fmt::format("the records of the study contradict each other: {} "
                          "(rows were changed or deleted by hand: go on with "
                          "an earlier copy of the file)",
                          what));
}

void check_ids(const std::vector<Trial>& trials) {
  for (size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].id == static_cast<TrialId>(i) + 1) continue;
    contradiction(
        fmt::format("trial {} comes after trial {}", trials[i].id, i));
  }
}

void check_horizon(const std::optional<StudyRow>& study, const Trial& trial,
                   int step) {
  if (!study || trial.kind != TrialKind::search || step <= study->horizon) {
    return;
  }
  contradiction(fmt::format("trial {} has step {}, the horizon is {}", trial.id,
                            step, study->horizon));
}

void check_curve(const Trial& trial, CurvePart part) {
  int before = 0;
  for (const StepReport& report : trial.curve) {
    const bool follows = part == CurvePart::whole ? report.step == before + 1
                                                  : report.step > before;
    if (!follows) {
      contradiction(fmt::format("trial {} has step {} after step {}", trial.id,
                                report.step, before));
    }
    before = report.step;
  }
}

void check_last(TrialId trial, int last, const CurveEnds& ends) {
  if (last == ends.last_step) return;
  contradiction(
      fmt::format("trial {} has reports up to step {}, it had some "
                  "up to step {}",
                  trial, last, ends.last_step));
}

void check_best(const StudyRow& study, const Trial& trial,
                const CurveEnds& ends) {
  if (best_value({study.metric, study.goal}, trial) == ends.best) return;
  contradiction(
      fmt::format("the best {} of trial {} is not that of its "
                  "reports",
                  study.metric, trial.id));
}

void check_exists(TrialId id, const std::vector<Trial>& trials,
                  const char* what) {
  if (id >= 1 && id <= static_cast<TrialId>(trials.size())) return;
  contradiction(
      fmt::format("{} names trial {}, there are {}", what, id, trials.size()));
}

// A winner has won by a value.
void check_result(const StudyRow& study, const std::vector<Trial>& trials) {
  const auto result = decode_final_result(study.final_json);
  if (!result) return;
  if (result->final_trial != 0) {
    check_exists(result->final_trial, trials, "the final result");
  }
  if (result->best == 0) return;
  check_exists(result->best, trials, "the final result");
  const Trial& best = trials[size_t(result->best) - 1];
  if (!best_value({study.metric, study.goal}, best)) {
    contradiction(fmt::format("trial {} is the best, but has no {}", best.id,
                              study.metric));
  }
}

void check_sessions(const StudyRecords& records) {
  const auto count = static_cast<int64_t>(records.sessions.size());
  for (int64_t i = 0; i < count; ++i) {
    if (records.sessions[size_t(i)].number == i + 1) continue;
    contradiction(fmt::format("session {} comes after session {}",
                              records.sessions[size_t(i)].number, i));
  }
  const auto check = [count](int64_t session, const char* what) {
    if (session <= count) return;
    contradiction(
        fmt::format("{} is of session {}, there are {}", what, session, count));
  };
  for (const TrialEvent& event : records.events)
    check(event.session, "an event");
  for (const Decision& decision : records.decisions) {
    check(decision.session, "a decision");
  }
}

void check_reports(const StudyRecords& records,
                   const std::vector<CurveEnds>& ends) {
  std::vector<std::vector<int>> steps(records.trials.size());
  for (const RecordedReport& report : records.reports) {
    check_exists(report.trial, records.trials, "a report");
    const Trial& trial = records.trials[size_t(report.trial) - 1];
    check_horizon(records.row, trial, report.report.step);
    steps[size_t(report.trial) - 1].push_back(report.report.step);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    std::sort(steps[i].begin(), steps[i].end());
    int before = 0;
    for (const int step : steps[i]) {
      if (step > before + 1) {
        contradiction(fmt::format("trial {} has step {} after step {}", i + 1,
                                  step, before));
      }
      before = step;
    }
    check_last(static_cast<TrialId>(i) + 1, before, ends[i]);
  }
}

}  // namespace

void check_trials(const std::optional<StudyRow>& study,
                  const std::vector<Trial>& trials,
                  const std::vector<CurveEnds>& ends, CurvePart part) {
  check_ids(trials);
  for (size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    check_curve(trial, part);
    check_last(trial.id, trial.steps(), ends[i]);
    if (study) check_best(*study, trial, ends[i]);
    check_horizon(study, trial, trial.steps());
    check_horizon(study, trial, trial.target_step);
  }
  if (study) check_result(*study, trials);
}

void check_decisions(const std::vector<Decision>& decisions) {
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (decisions[i].number == static_cast<int64_t>(i) + 1) continue;
    contradiction(fmt::format("decision {} comes after decision {}",
                              decisions[i].number, i));
  }
}

void check_records(const StudyRecords& records,
                   const std::vector<CurveEnds>& ends) {
  check_ids(records.trials);
  check_sessions(records);
  check_reports(records, ends);
  for (const TrialEvent& event : records.events) {
    check_exists(event.trial, records.trials, "an event");
  }
  check_decisions(records.decisions);
  for (const Decision& decision : records.decisions) {
    check_exists(decision.trial, records.trials, "a decision");
  }
  for (const RankRound& rank : records.ranks) {
    check_exists(rank.trial, records.trials, "a round of a rank");
  }
}

void check_units(const SearchSpace& space, const std::vector<Trial>& trials) {
  for (const Trial& trial : trials) {
    const bool inside = std::all_of(
        trial.unit.begin(), trial.unit.end(),
        [](double coordinate) { return coordinate >= 0 && coordinate <= 1; });
    if (inside && trial.unit.size() == space.dimensions()) continue;
    contradiction(
        fmt::format("trial {} lies nowhere in the search space", trial.id));
  }
}

}  // namespace dtune
