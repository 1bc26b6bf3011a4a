// `points:` of a recipe: what is tried first.
#pragma once

#include <vector>

#include "dtune/config/diagnostics.h"
#include "dtune/config/document.h"

namespace dtune {

// Reads [{lr: 0.1, l2: 1e-4}, ...], each a point of the recipe's space, or the
// rows of a CSV file (space/point_table.h). What a point of the list leaves out
// gets its prior's value, or the middle of its range. Reports what is no point
// of the space, and what makes no recipe that can be trained.
std::vector<Point> read_points(const Document& document, const Recipe& recipe,
                               Diagnostics& diagnostics);

void write_points(YamlNode& recipe, const std::vector<Point>& points);

}  // namespace dtune
