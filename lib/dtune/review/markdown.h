// The result of a study as a few lines of Markdown, for the summary of a CI
// job.
#pragma once

#include <string>
#include <vector>

#include "dtune/report/expectations.h"

namespace dtune {

// A heading, a table of some ten lines (best, point, model, search,
// expectations, what to be careful about) and the next command. What names hold
// cannot leave its cell.
std::string summary_markdown(const Study& study, const StudyFacts& facts,
                             const std::vector<ExpectationResult>& results);

// GitHub's workflow commands, one line for each expectation that does not hold:
// "::error file=r.yaml,line=14,col=3,title=...::val_accuracy is 0.89, ...".
// "" where all hold.
std::string github_annotations(const std::vector<ExpectationResult>& results);

}  // namespace dtune
