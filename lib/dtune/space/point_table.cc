#include "dtune/space/point_table.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

struct Line {
  int number = 0;
  std::vector<std::string> cells;
};

[[noreturn]] void fail(const std::string& name, int line, size_t column,
                       const std::string& what) {
  throw Error(ErrorKind::config,
              fmt::format("{}:{}:{}: {}", name, line, column, what));
}

// One line of cells, which may span several of the text; `at` moves behind it.
Line read_line(const std::string& text, size_t& at, int& number,
               const std::string& name) {
  Line line{number, {""}};
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++number;
    if (quoted && c == '"' && text.compare(at, 2, "\"\"") == 0) {
      line.cells.back() += text[at++];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      line.cells.emplace_back();
    } else if (!quoted && c == '\n') {
      ++at;
      return line;
    } else if (quoted || c != '\r') {
      line.cells.back() += c;
    }
  }
  if (quoted) fail(name, line.number, 1, "a quote is not closed");
  ++number;
  return line;
}

std::vector<Line> read_lines(const std::string& text, const std::string& name) {
  std::vector<Line> lines;
  const bool marked = text.starts_with("\xEF\xBB\xBF");  // as spreadsheets do
  int number = 1;
  for (size_t at = marked ? 3 : 0; at < text.size();) {
    Line line = read_line(text, at, number, name);
    const bool empty = line.cells.size() == 1 && line.cells[0].empty();
    if (!empty) lines.push_back(std::move(line));
  }
  return lines;
}

std::optional<Value> truth_in(const std::string& cell) {
  for (const char* word : {"true", "True", "TRUE", "1"}) {
    if (cell == word) return true;
  }
  for (const char* word : {"false", "False", "FALSE", "0"}) {
    if (cell == word) return false;
  }
  return std::nullopt;
}

std::optional<Value> choice_in(const Parameter& p, const std::string& cell) {
  for (const Value& choice : p.choices) {
    if (to_string(choice) == cell) return choice;
  }
  const auto number = parse_number<double>(cell);
  for (const Value& choice : p.choices) {
    const auto own = as_number(choice);
    if (number && own && *own == *number) return choice;
  }
  return truth_in(cell);
}

// Other programs add up steps: their 0.1 + 0.2 is 0.3 to seventeen digits alone.
double without_rounding(const Parameter& p, double x) {
  constexpr double kRounding = 1e-9;  // of a step
  if (!(p.quantum > 0) || !std::isfinite(x)) return x;
  const double nearest = nearest_value(p, x);
  return std::abs(x - nearest) <= kRounding * p.quantum ? nearest : x;
}

std::optional<Value> value_in(const Parameter& p, const std::string& cell) {
  if (p.kind == ParameterKind::boolean) return truth_in(cell);
  if (p.kind == ParameterKind::categorical) return choice_in(p, cell);
  const auto number = parse_number<double>(cell);
  if (!number) return std::nullopt;
  if (p.kind == ParameterKind::real) return without_rounding(p, *number);
  if (*number != std::floor(*number) || std::abs(*number) > 9e15) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

// A column of the file: of a parameter, or of anything else.
struct Column {
  std::string name;
  std::optional<size_t> parameter;
};

std::optional<size_t> parameter_of(const SearchSpace& space,
                                   const std::string& name) {
  for (const char* start : {"", "param.", "params_"}) {
    const std::string prefix = start;
    if (!name.starts_with(prefix)) continue;
    if (const auto found = space.find(name.substr(prefix.size()))) return found;
  }
  return std::nullopt;
}

// "param.kind" beside a column "kind" of the program that wrote the table, as
// `dtune export --csv` has one: the column that says what it is counts.
void prefer_marked(const SearchSpace& space, std::vector<Column>& columns) {
  const auto is_marked = [&](const Column& column) {
    return column.parameter &&
           space.parameters()[*column.parameter].name != column.name;
  };
  std::set<size_t> marked;
  for (const Column& column : columns) {
    if (is_marked(column)) marked.insert(*column.parameter);
  }
  for (Column& column : columns) {
    const bool shadowed = column.parameter && !is_marked(column) &&
                          marked.contains(*column.parameter);
    if (shadowed) column.parameter.reset();
  }
}

constexpr size_t kMostNamed = 10;

// What the header has in place of a column that is missing.
std::string describe_header(const Line& line) {
  for (const char* other : {";", "\t"}) {
    if (line.cells.size() == 1 &&
        line.cells[0].find(other) != std::string::npos) {
      return "commas separate the columns, not semicolons or tabs";
    }
  }
  const size_t named = std::min(line.cells.size(), kMostNamed);
  return fmt::format(
      "it has {}{}",
      fmt::join(line.cells.begin(), line.cells.begin() + long(named), ", "),
      named < line.cells.size() ? ", ..." : "");
}

std::vector<Column> read_header(const Line& line, const std::string& name,
                                const SearchSpace& space) {
  std::vector<Column> columns;
  std::vector<int> seen(space.dimensions());
  for (const std::string& cell : line.cells) {
    columns.push_back({cell, parameter_of(space, cell)});
  }
  prefer_marked(space, columns);
  for (const auto& [cell, index] : columns) {
    if (index && ++seen[*index] > 1) {
      fail(name, line.number, 1,
           fmt::format("there are two columns of '{}' (remove one)",
                       space.parameters()[*index].name));
    }
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    const Parameter& p = space.parameters()[i];
    if (seen[i] > 0 || !p.when.empty()) continue;
    fail(name, line.number, 1,
         fmt::format("no column is called '{0}' (or param.{0}, params_{0}): "
                     "every parameter of space: needs one ({1})",
                     p.name, describe_header(line)));
  }
  return columns;
}

PointRow read_row(const Line& line, const std::vector<Column>& columns,
                  const SearchSpace& space) {
  PointRow row;
  row.line = line.number;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& cell = line.cells[i];
    if (!columns[i].parameter) {
      row.others[columns[i].name] = cell;
      continue;
    }
    const Parameter& p = space.parameters()[*columns[i].parameter];
    if (cell.empty()) continue;
    if (const auto value = value_in(p, cell)) {
      row.point[p.name] = *value;
    } else {
      row.problem =
          fmt::format("space.{}: '{}' is not one of its values", p.name, cell);
    }
  }
  if (row.problem.empty()) row.problem = space.reason_invalid(row.point);
  return row;
}

}  // namespace

std::vector<PointRow> read_point_table(const std::string& text,
                                       const std::string& name,
                                       const SearchSpace& space) {
  const std::vector<Line> lines = read_lines(text, name);
  if (lines.empty()) fail(name, 1, 1, "is empty: it has no header line");
  const std::vector<Column> columns = read_header(lines[0], name, space);
  std::vector<PointRow> rows;
  for (const Line& line : std::span(lines).subspan(1)) {
    if (line.cells.size() != columns.size()) {
      fail(name, line.number, 1,
           fmt::format("has {} cells, but the header has {}", line.cells.size(),
                       columns.size()));
    }
    rows.push_back(read_row(line, columns, space));
  }
  return rows;
}

}  // namespace dtune
