// Tables for spreadsheets and data frames: RFC 4180, UTF-8, a header line,
// line ends "\n", numbers with all their digits; missing, NaN: empty cells.
#pragma once

#include <string>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// A line of fields, each quoted where RFC 4180 requires it.
std::string csv_line(const std::vector<std::string>& fields);
// Shortest digits that read back as the same number; "" of NaN.
std::string csv_number(double value);

// trial,kind,state,reason,detail,attempt,failures,seed,step,seconds,node,slot,
// created_ms,started_ms,ended_ms,best_step,<metric of the objective>,
// then one column per parameter ("param.lr"). One line per trial.
std::string trials_csv(const Study& study);

// trial,step,seconds,checkpoint_seconds, then one column per metric. One line
// per step of every trial.
std::string curves_csv(const Study& study);

}  // namespace dtune
