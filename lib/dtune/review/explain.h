// Why a study went as it did: of the study as a whole, and of one trial.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/report/facts.h"
#include "dtune/report/text.h"
#include "dtune/review/importance.h"
#include "dtune/review/replay.h"

namespace dtune {

// The best trial at some moment; 0: none had a value.
struct BestSoFar {
  TrialId trial = 0;
  double value = 0;  // of the recipe's metric
};

struct ExplainedDecision {
  Decision decision;
  BestSoFar best;  // before it; trial 0 as well where unknown
};

struct StudyExplanation {
  std::vector<std::string> tuner;  // what the tuner says of itself
  std::vector<TrialId> best;       // up to five, the best first
  std::optional<Importance> importance;
  std::vector<ExplainedDecision> cuts;  // by the scheduler, in order
  int64_t paused = 0;                   // left at a pause, never taken up again
};

struct TrialExplanation {
  TrialId trial = 0;
  std::vector<ExplainedDecision> decisions;  // on it, in order
  std::vector<std::string> tuner;            // what is expected of it
  std::vector<Prediction> predicted;         // by step; empty: unknown
};

// What the tuner says of itself, sentence by sentence.
std::vector<std::string> tuner_words(const Study& study,
                                     const ReplayTuner& tuner);

// The weights of the predictors: the first sentence of tuner_words(), or "".
std::string trusted(const Study& study, const ReplayTuner& tuner);

// "a fifth more trials gain more than 0.001 with a probability of 0.12", by
// `stop.gain`, or a hundredth of what was found better than the median where
// the recipe does not ask; "" where the tuner cannot say.
std::string plateau_forecast(const Study& study, const ReplayTuner& tuner);

// What the tuner expects of a trial at a step; empty where it cannot say.
std::optional<Prediction> predict_step(const Study& study, const Trial& trial,
                                       int step, const ReplayTuner& tuner);
// The same at all steps up to the horizon (where it is open: to the last that
// was trained), evenly thinned.
std::vector<Prediction> predict_curve(const Study& study, const Trial& trial,
                                      const ReplayTuner& tuner);

// Which trial was the best after how many reports.
class BestHistory {
 public:
  struct Change {
    int64_t sequence = 0;  // of the report that made it
    BestSoFar best;
  };

  BestHistory(const Study& study, const StudyRecords& records);

  const std::vector<Change>& changes() const { return changes_; }
  // After so many reports; negative: unknown.
  BestSoFar at(int64_t reports) const;

 private:
  std::vector<Change> changes_;
};

// `study` with whole curves. Cost: a forest (a second at most), and what the
// tuner needs to see the study once.
StudyExplanation explain_study(const Study& study, const StudyRecords& records,
                               const ReplayTuner& tuner);
// REQUIRES: the study has the trial.
TrialExplanation explain_trial(const Study& study, TrialId id,
                               const StudyRecords& records,
                               const ReplayTuner& tuner);

// For people. `most` bounds the list of cuts, the latest being kept; 0: all.
std::string study_explanation_text(const Study& study,
                                   const StudyExplanation& explanation,
                                   const TextStyle& style, size_t most);
std::string trial_explanation_text(const Study& study,
                                   const TrialExplanation& explanation,
                                   const TextStyle& style);

// JSON documents, indented by two, with a line end. Numbers that JSON has no
// word for are null. DECISION is {"decision", "action", "maker", "trial",
// "step", "target_step", "after_report" (null: not known), "why", "best":
// {"trial", "value"} | null}.
// {"study", "id", "tuner": [...], "best": [{"trial", "value", "step",
//  "params"}], "importance": {"trials", "failures", "together",
//  "parameters": [{"name", "share", "best": value | null}]} | null,
//  "cuts": [DECISION], "paused"}
std::string study_explanation_json(const Study& study,
                                   const StudyExplanation& explanation);
// {"study", "id", "trial", "state", "reason", "detail", "params", "proposed":
//  "why" | null, "decisions": [DECISION], "tuner": [...], "curve": [{"step",
//  "value"}], "predicted": [{"step", "mean", "low", "high"}]}
std::string trial_explanation_json(const Study& study,
                                   const TrialExplanation& explanation);

}  // namespace dtune
