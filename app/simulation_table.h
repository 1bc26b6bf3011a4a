// The result of `dtune simulate` as a table for people.
#pragma once

#include <string>
#include <vector>

#include "dtune/report/text.h"
#include "dtune/simulate/statistics.h"

namespace dtune {

// One line a contender: mean regret with the middle 90% of its bootstrap, its
// difference to the first contender's, study by study, and the mean rank at
// each budget, in these units; trials, cuts and seconds of a study.
std::string simulation_table(const std::vector<ContenderStatistics>& rows,
                             const std::string& unit, const TextStyle& style);

}  // namespace dtune
