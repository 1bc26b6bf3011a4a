// What a person should know before trusting the result of a study, in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/report/facts.h"

namespace dtune {

struct StudyProblem {
  std::string what;    // one sentence
  std::string remedy;  // what to do about it; may be ""
};

// The most important first. Looked for: the chosen point at an edge of its
// range; differences among the best below the noise between steps; few full
// trainings; failures, by cause; a rank that is much slower than the others (by
// StudyRecords::ranks); a best that was found at the very end.
//
// `study` with whole curves. Noise: second differences of the later halves of
// the ten best curves, whose median magnitude is 0.6745 sqrt(6) deviations
// where the noise is normal and the curve bends little.
std::vector<StudyProblem> find_problems(
    const Study& study, const StudyFacts& facts,
    const std::vector<RankRound>& ranks = {});

// The deviation of the noise between steps, as above; empty where there are
// fewer than six differences.
std::optional<double> step_noise(const Study& study);

}  // namespace dtune
