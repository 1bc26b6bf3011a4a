// Texts about a study for people: at the end of a run, and for `dtune status`,
// `best`, `show` and `ls`. Lines end with line ends; nothing that a recipe or a
// program said can control the terminal.
#pragma once

#include <string>
#include <vector>

#include "dtune/report/facts.h"
#include "dtune/report/text.h"

namespace dtune {

// The end of a run: the best point, its metrics, files, trials by state and
// reason, what failed, and the command to type next.
std::string summary_text(const Study& study, const StudyFacts& facts,
                         const TextStyle& style);

// `dtune status`: how far it is, the trials by state, the failures with their
// causes, the best trials. `most` bounds the list of trials; 0: all.
std::string status_text(const Study& study, const StudyFacts& facts,
                        const TextStyle& style, int most = 15);

// `dtune best`: the best point, ready to be copied.
std::string best_text(const Study& study, const StudyFacts& facts,
                      const TextStyle& style);

// A line for each trial of the Pareto front (study/pareto.h), with what it
// trades off and its point.
std::string pareto_text(const Study& study, const TextStyle& style);

// `dtune show`: one trial with its curve and history.
std::string trial_text(const Study& study, const Trial& trial,
                       const std::vector<TrialEvent>& events,
                       const TextStyle& style);

// One study of `dtune ls`. A database that cannot be read has a `problem`.
struct StudyListing {
  std::string database;
  std::string problem;
  StudyRow row;
  int trials = 0;
  std::optional<double> best;  // of row.metric
  bool held = false;           // a coordinator works on it, or others do
};
StudyListing listing_of(const Study& study, const StudyRow& row,
                        const std::string& database);
std::string ls_text(const std::vector<StudyListing>& studies,
                    const TextStyle& style);

}  // namespace dtune
