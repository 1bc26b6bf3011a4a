#include "dtune/review/markdown.h"

#include <algorithm>

#include "../report/sample_study.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

ExpectationResult result(ExpectationOutcome outcome, const std::string& where,
                         const std::string& message) {
  ExpectationResult one;
  one.expectation.where = where;
  one.outcome = outcome;
  one.message = message;
  return one;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a summary in Markdown says the result in some ten lines") {
  const std::string text = summary_markdown(
      test::sample_study(), test::sample_facts(),
      {result(ExpectationOutcome::passed, "", "trials is 6, expected >= 3"),
       result(ExpectationOutcome::failed, "", "a is 1, expected >= 2")});
  CHECK(has(text, "### fashion: finished after 1m23s of searching\n"));
  CHECK(
      has(text, "| best | **val&#95;accuracy 0.9125** (trial 4, step 4/4) |"));
  CHECK(has(text, "| ok | trials is 6, expected &#62;= 3 |"));
  CHECK(has(text, "| **failed** | a is 1, expected &#62;= 2 |"));
  CHECK(has(text, "| careful | 1 trial failed (diverged)"));
  CHECK(has(text, "Next: <code>dtune "));
  CHECK(std::count(text.begin(), text.end(), '\n') <= 16);
}

TEST_CASE("names cannot leave their cell of the table") {
  Study study = test::sample_study();
  study.trials[3].point["lr"] = std::string("a|b\n</td>`x`");
  const std::string text = summary_markdown(study, test::sample_facts(), {});
  CHECK(has(text, "a&#124;b &#60;/td&#62;&#96;x&#96;"));
}

TEST_CASE("GitHub is shown the line of an expectation that does not hold") {
  const std::string text = github_annotations(
      {result(ExpectationOutcome::passed, "r.yaml:1:2", "fine"),
       result(ExpectationOutcome::failed, "dir,1/r.yaml:14:3",
              "val_accuracy is 10%\nlow")});
  CHECK(text ==
        "::error file=dir%2C1/r.yaml,line=14,col=3,title=expectation "
        "failed::val_accuracy is 10%25%0Alow\n");
  CHECK(github_annotations({result(ExpectationOutcome::missing, "", "none")}) ==
        "::error title=expectation missing::none\n");
}

}  // namespace dtune
