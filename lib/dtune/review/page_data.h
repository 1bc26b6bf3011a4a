// What the page of `dtune report` draws: everything is computed here, the
// page's script only filters and draws.
#pragma once

#include <string>
#include <vector>

#include "dtune/report/facts.h"
#include "dtune/review/replay.h"

namespace dtune {

// One study as it is to be shown. Does not own what it points at.
struct ReportedStudy {
  const Study* study = nullptr;  // with whole curves
  const StudyRecords* records = nullptr;
  StudyFacts facts;
  const ReplayTuner* tuner = nullptr;  // null: nothing is forecast
  std::string tuner_problem;           // why it is null
  int64_t now_ms = 0;                  // when this was read
};

// A JSON object that may stand in a <script> of HTML (page_json.h). Times are
// milliseconds since the study was created, values those of the recipe's
// metric, `null` where there is none; trials are columns: the i-th entry of
// each is trial i + 1.
//
// {"name", "id", "database", "recipe", "state", "metric", "goal", "horizon"
//  (null: open), "seconds", "created_ms", "now_ms", "noise", "budget": {"trials",
//  "seconds", "steps"},
//  "verdict": {"best": {"trial", "step", "value", "point"} | null, "states",
//   "why", "chosen", "model", "test": {}, "validation": {}, "expected":
//   [{"outcome", "text"}], "problems": [{"what", "remedy"}], "tuner": [...],
//   "next": [{"command", "what"}]},
//  "parameters": [{"name", "kind", "log", "low", "high", "choices"}],
//  "words": {"states", "reasons"}: what numbers of the columns mean,
//  "trials": {"final", "state", "reason", "detail", "best", "best_step",
//   "last", "steps", "seconds", "node", "slot", "values": a column a parameter,
//   "units": the same in 0..1},
//  "curves": [[step, value, step, value, ...], ...],
//  "predicted": [{"trial", "points": [[step, mean, low, high], ...]}],
//  "progress": [[steps, seconds, trial, value], ...],
//  "spent": {"trials", "steps"},
//  "outlook": [[steps, mean, low, high], ...],
//  "importance": {"trials", "failures", "together", "parameters": [{"name",
//   "share", "deviation", "best", "effect": [[mean, deviation], ...]}],
//   "pairs": [{"first", "second", "values"}]} | null,
//  "decisions": {"trial", "action", "maker", "step", "target", "seconds", "why",
//   "best", "best_value"}: columns,
//  "events": {"trial", "attempt", "state", "reason", "at", "detail"},
//  "lanes": names, "turns": [[trial, lane, start, end, state, resumed], ...],
//  "trust": {"names", "points": [[decision, seconds, weight, ...], ...]},
//  "forecasts": [[trial, step, steps ahead, mean, low, high, seen], ...],
//  "ranks": [{"trial", "attempt", "rounds", "nodes", "speed", "share", "wait",
//   "late": a row a rank}, ...]}
std::string page_data(const ReportedStudy& reported);

// A trial's time in its slot, from its lease to the next change of its state.
struct SlotTurn {
  TrialId trial = 0;
  int lane = 0;
  int64_t start_ms = 0;
  int64_t end_ms = 0;
  TrialState state = TrialState::running;  // what ended it
  bool resumed = false;                    // it had a turn before
  std::string node;  // of the slot (of several: the first), "" where not known
  int slot = -1;
};

// In the order in which they began. Lanes are the slots in the order in which
// they were first used; where an older dtune kept no note of them, the lowest
// lane that is free when a turn begins. A turn that goes on ends at `now_ms`.
std::vector<SlotTurn> slot_turns(const std::vector<TrialEvent>& events,
                                 int64_t now_ms);

}  // namespace dtune
