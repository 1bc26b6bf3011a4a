// Columns of text that fit a width: the least important columns are left out
// first.
#pragma once

#include <string>
#include <vector>

#include "dtune/report/text.h"

namespace dtune {

struct TableColumn {
  std::string header;
  bool right = false;  // aligned right
  int rank = 0;        // columns of the largest rank are left out first
  int widest = 40;     // cells are cut to this
};

struct TableCell {
  std::string text;  // printable
  Color color = Color::none;
};

using TableRow = std::vector<TableCell>;  // one cell per column

// Lines without line ends: the header, then the rows. A column whose cells are
// all empty is left out; what is still too wide is cut.
std::vector<std::string> render_table(const std::vector<TableColumn>& columns,
                                      const std::vector<TableRow>& rows,
                                      const TextStyle& style);

}  // namespace dtune
