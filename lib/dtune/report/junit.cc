#include <fmt/format.h>

#include "dtune/base/text.h"
#include "dtune/report/expectations.h"

namespace dtune {
namespace {

std::string escaped(const std::string& text) {
  return escape_markup(printable(text));
}

std::string study_case(const Study& study) {
  std::string open = fmt::format(
      "  <testcase classname=\"dtune.{}\" name=\"study\" time=\"{:.3f}\"",
      escaped(study.recipe.study), study.searched_seconds);
  if (study.state == StudyState::finished) return open + "/>\n";
  return open + fmt::format(
                    ">\n    <error message=\"the study is {}: {}\"/>\n"
                    "  </testcase>\n",
                    to_string(study.state), escaped(describe_states(study)));
}

std::string expectation_case(const Study& study,
                             const ExpectationResult& result) {
  const Expectation& expectation = result.expectation;
  const std::string name =
      expectation.text.empty()
          ? fmt::format("{} {} {}", expectation.metric,
                        to_string(expectation.comparison), expectation.bound)
          : expectation.text;
  std::string open =
      fmt::format("  <testcase classname=\"dtune.{}\" name=\"{}\" time=\"0\"",
                  escaped(study.recipe.study), escaped(name));
  if (result.outcome == ExpectationOutcome::passed) return open + "/>\n";
  return open + fmt::format(
                    ">\n    <failure type=\"{}\" message=\"{}\">{}"
                    "</failure>\n  </testcase>\n",
                    to_string(result.outcome), escaped(result.message),
                    escaped(expectation.where));
}

constexpr const char* kDeclaration =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

}  // namespace

std::string junit_error_xml(const std::string& name, const Error& error) {
  return fmt::format(
      "{0}<testsuite name=\"dtune {1}\" tests=\"1\" failures=\"0\" "
      "errors=\"1\" skipped=\"0\" time=\"0\">\n"
      "  <testcase classname=\"dtune.{1}\" name=\"study\" time=\"0\">\n"
      "    <error type=\"{2}\" message=\"{3}\"/>\n"
      "  </testcase>\n</testsuite>\n",
      kDeclaration, escaped(name), to_string(error.kind()),
      escaped(error.what()));
}

std::string junit_xml(const Study& study,
                      const std::vector<ExpectationResult>& results) {
  size_t failures = 0;
  std::string cases = study_case(study);
  for (const ExpectationResult& result : results) {
    failures += result.outcome == ExpectationOutcome::passed ? 0 : 1;
    cases += expectation_case(study, result);
  }
  return fmt::format(
      "{}<testsuite name=\"dtune {}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"{}\" skipped=\"0\" time=\"{:.3f}\">\n{}</testsuite>\n",
      kDeclaration, escaped(study.recipe.study), results.size() + 1, failures,
      study.state == StudyState::finished ? 0 : 1, study.searched_seconds,
      cases);
}

}  // namespace dtune
