// What reports need beside the Study, and what they derive from it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtune/store/final_result.h"
#include "dtune/store/trial_store.h"

namespace dtune {

// A node on which attempt after attempt fails, and which is therefore given
// none for a while (study/node_health.h).
struct RestingNode {
  std::string node;
  int failures = 0;  // in a row
  double seconds_left = 0;
};

// A Study as it is in memory says nothing of files; this does. Paths are shown
// as they are given here.
struct StudyFacts {
  std::string database;
  std::string recipe_path;
  int64_t budget_trials = 0;  // as granted so far; 0: no limit
  double budget_seconds = 0;
  int64_t budget_steps = 0;
  std::optional<FinalResult> result;  // once finished
  std::string tuner;  // what the tuner says of itself, one line; may be ""
  std::vector<RestingNode> resting;  // nodes of a study that runs
};

// As the coordinator that works on the study at `wall_ms` sees it; from what it
// has stored. Where all nodes rest none does.
std::vector<RestingNode> resting_nodes(const Study& study,
                                       const std::vector<TrialEvent>& events,
                                       int64_t wall_ms);

// Throws Error(store) where row.final_json cannot be read.
StudyFacts facts_of(const StudyRow& row, const std::string& database);

// Number of search trials per state, all states included.
struct StateCount {
  TrialState state;
  int trials = 0;
  // Number per reason, the most frequent first.
  std::vector<std::pair<Reason, int>> reasons;
};
std::vector<StateCount> count_states(const Study& study);

// The objective as the recipe's metric, i.e. without the sign that makes
// larger better.
double metric_of(const ObjectiveSpec& objective, double objective_value);

// The trial of the search whose point the study ships: once it is finished,
// that of its result; before, the incumbent. Null where there is none.
const Trial* chosen_trial(const Study& study, const StudyFacts& facts);

// Of a study without a chosen_trial(): why there is none.
std::string why_no_best(const Study& study);

// The final model; null where there is none, or none of the chosen trial (the
// search has found a better one since).
const FinalResult* shipped_model(const Study& study, const StudyFacts& facts);

// The metrics that stand for the study: the final model's. Validation metrics
// that it has none of, as it was trained with the validation images, are those
// of the chosen trial's best step, as are all where there is no model.
std::map<std::string, double> result_metrics(const Study& study,
                                             const StudyFacts& facts);

// Why the search is over; "" while it is not: one that went on with more budget
// has the result of its earlier end.
std::string why_ended(const Study& study, const StudyFacts& facts);

// "lr=0.0312 l2=1.2e-05 dropout=0.3": in the order of the recipe's space,
// printable; "no parameters" where nothing is tuned.
std::string describe_point(const Study& study, const Point& point);

// "40 trials: 9 complete, 27 cut (rung), 2 failed (diverged, crashed)".
std::string describe_states(const Study& study);

// A line for a shell that trains the incumbent's point once more: a command as
// the trial ran it, where it ran; else a study of that point alone. "" where
// there is no incumbent.
std::string again_command(const Study& study, const StudyFacts& facts);

// The command to type next: resume, eval, best ...
std::string next_command(const Study& study, const StudyFacts& facts);

}  // namespace dtune
