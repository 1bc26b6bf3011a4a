#include "dtune/report/expectations.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/suggest.h"

namespace dtune {
namespace {

std::map<std::string, double> known_values(const Study& study,
                                           const StudyFacts& facts) {
  std::map<std::string, double> values = result_metrics(study, facts);
  for (const StudyMetric& metric : study_metrics()) {
    values.emplace(metric.name, metric.value(study));
  }
  return values;
}

std::string expected_text(const Expectation& expectation) {
  return fmt::format("{} {}", to_string(expectation.comparison),
                     expectation.bound);
}

std::string missing_text(const Expectation& expectation,
                         const std::map<std::string, double>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return fmt::format(
      "there is no metric '{}'{} (there are: {})", expectation.metric,
      did_you_mean(expectation.metric, names), fmt::join(names, ", "));
}

ExpectationResult evaluate(const Expectation& expectation,
                           const std::map<std::string, double>& values) {
  ExpectationResult result;
  result.expectation = expectation;
  const auto found = values.find(expectation.metric);
  if (found == values.end()) {
    result.message = missing_text(expectation, values);
    return result;
  }
  result.value = found->second;
  if (std::isnan(found->second)) {
    result.message =
        fmt::format("{} is not a number, expected {}", expectation.metric,
                    expected_text(expectation));
    return result;
  }
  const bool passed = expectation.holds(found->second);
  result.outcome =
      passed ? ExpectationOutcome::passed : ExpectationOutcome::failed;
  result.message = fmt::format("{} is {:.6g}, expected {}", expectation.metric,
                               found->second, expected_text(expectation));
  return result;
}

}  // namespace

const char* to_string(ExpectationOutcome outcome) {
  switch (outcome) {
    case ExpectationOutcome::passed:
      return "passed";
    case ExpectationOutcome::failed:
      return "failed";
    case ExpectationOutcome::missing:
      return "missing";
  }
  return "missing";
}

std::vector<ExpectationResult> evaluate_expectations(const Study& study,
                                                     const StudyFacts& facts) {
  const auto values = known_values(study, facts);
  std::vector<ExpectationResult> results;
  for (const Expectation& expectation : study.recipe.expect) {
    results.push_back(evaluate(expectation, values));
  }
  return results;
}

bool all_passed(const std::vector<ExpectationResult>& results) {
  return std::all_of(results.begin(), results.end(), [](const auto& result) {
    return result.outcome == ExpectationOutcome::passed;
  });
}

std::string expectations_text(const std::vector<ExpectationResult>& results,
                              const TextStyle& style) {
  std::string text;
  for (const ExpectationResult& result : results) {
    const bool passed = result.outcome == ExpectationOutcome::passed;
    const std::string& where = result.expectation.where;
    text +=
        paint(style, passed ? Color::green : Color::red,
              passed ? "ok      " : pad_right(to_string(result.outcome), 8));
    if (!passed && !where.empty()) text += printable(where) + ": ";
    text += printable(result.message) + '\n';
  }
  return text;
}

}  // namespace dtune
