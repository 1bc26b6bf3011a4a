// JSON documents of `--json`: indented by two, ended by a line end. Numbers
// that JSON has no word for (NaN, infinities) are null. Keys may be added,
// never renamed or removed.
//
// TRIAL   {"trial": 7, "kind": "search" | "final", "state": "cut",
//          "reason": "rung", "detail": "...", "step": 3, "attempt": 1,
//          "failures": 0, "seed": "0x...", "params": {"lr": 0.03, ...},
//          "metric": 0.91 (best) | null, "last": 0.90 | null,
//          "metrics": {...} (of the best step), "seconds": 12.5 (training),
//          "node": "...", "slot": 0}
#pragma once

#include <string>
#include <vector>

#include "dtune/report/expectations.h"
#include "dtune/report/summary.h"

namespace dtune {

// {"study", "id", "trial": 7 | null, "params": {...}, "metric":
//  "val_accuracy", "goal", "value": 0.91, "val_accuracy": ..., "test_accuracy":
//  ... (every metric of the result by its own name; test_* once the final model
//  is trained; no metric is ever written over the keys before it), "metrics":
//  {...}, "step", "horizon", "seed", "model": "path" | null, "final_trial": 41
//  | null, "search": FIGURES | null, "final": FIGURES | null, "chosen": "why
//  that trial and step" | null, "database", "state"}
//
// FIGURES {"trial", "step", "metrics"}: of the chosen trial's best step, and of
// the model. "value", "step" and "metrics" are the model's where there is one;
// "value" and "step" the search's where the model was trained with the
// validation images.
std::string best_json(const Study& study, const StudyFacts& facts);

// The list of `dtune best --pareto --json`.
std::string pareto_json(const Study& study);

// {"study", "id", "state", "database", "recipe", "horizon", "metric", "goal",
//  "searched_seconds", "budget": {"trials", "seconds", "steps"} (null: no
//  limit), "steps", "trials": {"total", "waiting", ..., "invalid"}, "reasons":
//  {"cut": {"rung": 5}, ...}, "best": TRIAL | null, "final": TRIAL | null,
//  "model": "path" | null, "why": "...", "chosen": "..." | null, "failures":
//  [TRIAL, ...],
//  "tuner": "..." | null (what it says of itself), "list": [TRIAL, ...]}
std::string status_json(const Study& study, const StudyFacts& facts);

// [{"database", "problem": "..." | null, "study", "id", "state", "running":
//   bool, "trials", "metric", "best", "searched_seconds", "created_ms",
//   "recipe"}, ...]
std::string ls_json(const std::vector<StudyListing>& studies);

// TRIAL with "curve": [{"step", "seconds", "checkpoint_seconds", "metrics"},
// ...] and "events": [{"attempt", "state", "reason", "detail", "wall_ms"}].
std::string trial_json(const Study& study, const Trial& trial,
                       const std::vector<TrialEvent>& events);

// `dtune export --format json`: status_json's keys, with the curve of every
// trial of "list" and "recipe_yaml".
std::string export_json(const Study& study, const StudyFacts& facts);

// {"expectations": [{"text", "where", "metric", "value", "outcome": "passed" |
// "failed" | "missing", "message"}], "passed": bool}
std::string expectations_json(const std::vector<ExpectationResult>& results);

}  // namespace dtune
