// Points of a search space as rows of a CSV file, as dtune, Optuna and
// spreadsheets write them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dtune/space/search_space.h"

namespace dtune {

struct PointRow {
  int line = 0;  // of the file, 1, 2, ...
  Point point;
  std::string problem;  // why it is no point of the space; "": it is one
  std::map<std::string, std::string> others;  // the other columns' cells
};

// Reads RFC 4180 with a header line. The column of a parameter is called by its
// name, or `param.NAME` (dtune export), or `params_NAME` (Optuna), which count
// before the bare name; one that is not always active may have empty cells, or
// none at all. Empty lines are
// skipped. Throws Error(config), "name:line:column: what": a column of a
// parameter is missing or there twice, a row with more or fewer cells than the
// header, a quote that is not closed.
std::vector<PointRow> read_point_table(const std::string& text,
                                       const std::string& name,
                                       const SearchSpace& space);

}  // namespace dtune
