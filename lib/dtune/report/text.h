// Text for people: numbers, widths and colours. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

// How a text may look. Widths are in terminal columns.
struct TextStyle {
  bool color = false;
  bool unicode = true;
  int columns = 80;
};

enum class Color { none, bold, dim, red, green, yellow, blue, cyan };

// The text in a colour, or as it is without style.color.
std::string paint(const TextStyle& style, Color color, std::string_view text);

// Text of others made safe for a terminal and for one line: control characters
// (escape sequences included), marks that change the direction of text, and
// bytes that are no UTF-8 go; line ends and tabs become spaces.
std::string printable(std::string_view text);
// The same for several lines: their ends stay.
std::string printable_lines(std::string_view text);

// Columns that UTF-8 text without escape sequences takes: none for combining
// marks, two for East Asian wide characters.
int display_width(std::string_view text);
// The text cut to a width, with an ellipsis where something was left out.
std::string fit(std::string_view text, int width, bool unicode);
// The same, cut before the last two fifths of the width: the end stays.
std::string fit_both_ends(std::string_view text, int width, bool unicode);
// The text filled with spaces to a width (never cut).
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// "0.9123", "12.35", "1.2e-05", "nan".
std::string format_metric(double value);
// Three significant digits for reals, else as written; "" if absent.
std::string format_parameter(const Point& point, const std::string& name);
// "1,234,567".
std::string format_count(int64_t count);
// "3/12", or "3" where the horizon is open.
std::string format_step(int step, int horizon);
// "45s", "3m12s"; "<1s" below a second.
std::string format_seconds(double seconds);

// The values as bars of `width` columns at most, the latest last, scaled from
// `low` (lowest bar) to `high`; values that are not finite are gaps.
struct Scale {
  double low = 0;
  double high = 1;

  // Of the way from `low` to `high`; not a number where they are equal. By
  // halves: a difference of two numbers may be larger than any number.
  double share(double value) const {
    return (value / 2 - low / 2) / (high / 2 - low / 2);
  }
};
std::string sparkline(const std::vector<double>& values, const Scale& scale,
                      int width, bool unicode);

// A bar of exactly `width` columns, of which `fraction` (0..1) is filled.
std::string progress_bar(double fraction, int width, bool unicode);

// A word for a POSIX shell, quoted where it has to be; one that printable()
// would change in the form $'...', which takes bash or zsh.
std::string shell_quoted(const std::string& word);
// A command within a sentence: 'dtune resume r.db'; between `...` where it has
// quotes itself, so that what lies between the marks is what a shell takes.
std::string quoted_command(const std::string& command);

}  // namespace dtune
