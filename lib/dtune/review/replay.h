// Takes every decision of a study again, from its records alone, and compares.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dtune/store/trial_store.h"
#include "dtune/study/tuner.h"

namespace dtune {

struct ReplayTuner {
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<Scheduler> scheduler;
};

struct ReplayOptions {
  // The recipe of a session; budgets are set from the session's record.
  std::function<Recipe(const std::string& yaml)> parse_recipe;
  // As the coordinator makes them: anew for every session.
  std::function<ReplayTuner(const Recipe& recipe, int horizon)> make_tuner;
};

// What was decided: "start" a trial at a point, "resume", "extend", "pause" or
// "cut" it, "go on" (nothing changes), "wait" (no trial is started).
struct Choice {
  std::string action;
  TrialId trial = 0;
  Point point;  // start
  int target_step = 0;
  std::string why;  // not compared

  bool operator==(const Choice& other) const {
    return action == other.action && trial == other.trial &&
           point == other.point && target_step == other.target_step;
  }
};

struct ReplayDifference {
  int64_t decision = 0;  // its number; of a "go on": of the next one
  int64_t after_report = 0;
  int step = 0;  // of the trial at that time
  Choice recorded;
  Choice taken;  // now
};

struct ReplayResult {
  int64_t sessions = 0;
  int64_t decisions = 0;                       // gone through
  int64_t asked = 0;                           // for a free slot, and compared
  int64_t judged = 0;                          // upon a report, and compared
  std::optional<ReplayDifference> difference;  // the first; it ends the replay
};

// Rebuilds the study record by record and asks the scheduler where the
// coordinator did: for every start and resume, and upon every report that was
// judged, one that changed nothing included. Decisions of the coordinator's own
// (horizon, divergence, budgets, clocks) are taken over. What is not asked
// again: a `wait`, since its time is not recorded.
//
// Deterministic. Costs what the tuner costs. Throws as journal_of and
// check_units do, and what the options throw.
ReplayResult replay(const StudyRecords& records, const ReplayOptions& options);

}  // namespace dtune
