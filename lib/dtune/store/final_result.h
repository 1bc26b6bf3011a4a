// What a finished study leaves behind: the text of StudyRow::final_json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "dtune/study/trial.h"

namespace dtune {

struct FinalResult {
  TrialId best = 0;         // the winner of the search; 0: none
  TrialId final_trial = 0;  // the training of the model to keep; 0: none
  int step = 0;             // of it that is kept; 0: the last
  // Of the final model: "val_accuracy", "test_accuracy", ...
  std::map<std::string, double> metrics;
  std::string model;  // its file, or ""
  std::string why;    // why the search ended, one sentence
  // Why the model is of that trial and that step, one sentence; may be "".
  std::string chosen;
};

// {"best":7,"final_trial":41,"step":9,"metrics":{...},"model":"...",
// "why":"...","chosen":"..."}; metrics as in codec.h.
std::string encode_final_result(const FinalResult& result);

// Empty for "". Fields that are missing keep their defaults; throws
// Error(store) where the text is no such object.
std::optional<FinalResult> decode_final_result(const std::string& text);

}  // namespace dtune
