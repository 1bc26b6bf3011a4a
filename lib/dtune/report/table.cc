#include "dtune/report/table.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace dtune {
namespace {

constexpr int kGap = 2;  // spaces between columns

// Width per column; 0 for those left out.
std::vector<int> natural_widths(const std::vector<TableColumn>& columns,
                                const std::vector<TableRow>& rows) {
  std::vector<int> widths(columns.size(), 0);
  for (size_t i = 0; i < columns.size(); ++i) {
    for (const TableRow& row : rows) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
    if (widths[i] == 0) continue;  // nothing to show
    widths[i] = std::max(widths[i], display_width(columns[i].header));
    widths[i] = std::min(widths[i], columns[i].widest);
  }
  return widths;
}

int total_width(const std::vector<int>& widths) {
  int total = -kGap;
  for (const int width : widths) total += width > 0 ? width + kGap : 0;
  return total;
}

// Narrows what is long and then leaves out columns until all fit.
void shrink(const std::vector<TableColumn>& columns, int available,
            std::vector<int>& widths) {
  while (total_width(widths) > available) {
    size_t worst = columns.size();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (widths[i] == 0) continue;
      if (worst == columns.size() || columns[i].rank >= columns[worst].rank) {
        worst = i;
      }
    }
    if (worst == columns.size() || columns[worst].rank == 0) return;
    // A text column may be cut before it goes altogether.
    const int excess = total_width(widths) - available;
    constexpr int kStillTells = 8;
    const bool cut =
        !columns[worst].right && widths[worst] - excess >= kStillTells;
    widths[worst] = cut ? widths[worst] - excess : 0;
  }
}

}  // namespace

std::vector<std::string> render_table(const std::vector<TableColumn>& columns,
                                      const std::vector<TableRow>& rows,
                                      const TextStyle& style) {
  std::vector<int> widths = natural_widths(columns, rows);
  shrink(columns, style.columns, widths);
  const auto line_of = [&](auto text_at, auto color_at) {
    std::string line;
    int left = style.columns;
    std::string spaces;  // not written at the end of a line
    for (size_t i = 0; i < columns.size(); ++i) {
      const int width = std::min(widths[i], left);
      if (width <= 0) continue;
      const std::string text = fit(text_at(i), width, style.unicode);
      const auto missing =
          static_cast<size_t>(std::max(0, width - display_width(text)));
      if (columns[i].right) spaces.append(missing, ' ');
      if (!text.empty()) {
        line += spaces + paint(style, color_at(i), text);
        spaces.clear();
      }
      if (!columns[i].right) spaces.append(missing, ' ');
      spaces.append(kGap, ' ');
      left -= width + kGap;
    }
    return line;
  };

  std::vector<std::string> lines;
  lines.push_back(
      line_of([&](size_t i) { return std::string_view(columns[i].header); },
              [](size_t) { return Color::dim; }));
  for (const TableRow& row : rows) {
    lines.push_back(
        line_of([&](size_t i) { return std::string_view(row[i].text); },
                [&](size_t i) { return row[i].color; }));
  }
  return lines;
}

}  // namespace dtune
