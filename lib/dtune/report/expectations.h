// `expect:` of a recipe, evaluated, and as JUnit XML for CI.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/report/facts.h"
#include "dtune/report/text.h"

namespace dtune {

enum class ExpectationOutcome {
  passed,
  failed,
  missing,  // no such metric, or it is not a number
};

const char* to_string(ExpectationOutcome outcome);

struct ExpectationResult {
  Expectation expectation;
  ExpectationOutcome outcome = ExpectationOutcome::missing;
  std::optional<double> value;
  // One sentence: "val_accuracy is 0.8912, expected >= 0.90".
  std::string message;
};

// Compares with result_metrics() and with what the study as a whole gives:
// `trials`, `failed_trials` (search) and `search_seconds`. An unknown metric is
// `missing`, with "did you mean".
std::vector<ExpectationResult> evaluate_expectations(const Study& study,
                                                     const StudyFacts& facts);

bool all_passed(const std::vector<ExpectationResult>& results);

// One line per expectation: "ok    val_accuracy >= 0.90   0.9123".
std::string expectations_text(const std::vector<ExpectationResult>& results,
                              const TextStyle& style);

// One <testsuite>: the case "study" (an error unless the study finished), then
// one case per expectation. The dialect that Jenkins, GitLab and GitHub read.
std::string junit_xml(const Study& study,
                      const std::vector<ExpectationResult>& results);

// The same for a command that ended in an error before there was a result: the
// case "study" with that error.
std::string junit_error_xml(const std::string& name, const Error& error);

}  // namespace dtune
