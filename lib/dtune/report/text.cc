#include "dtune/report/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/base/text.h"
#include "dtune/base/utf8.h"

namespace dtune {
namespace {

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

// Marks and isolates that turn the direction of what follows, and the line
// and paragraph separators.
bool is_direction(char32_t c) {
  return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0x200e || c == 0x200f || c == 0x061c || c == 0x2028 ||
         c == 0x2029;
}

int width_of(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  // The common blocks; a table of all of Unicode would serve few.
  constexpr std::array<Range, 5> kNone = {{{0x0300, 0x036f},
                                           {0x1ab0, 0x1aff},
                                           {0x200b, 0x200d},
                                           {0x20d0, 0x20ff},
                                           {0xfe00, 0xfe0f}}};
  constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115f},
                                           {0x2e80, 0x303e},
                                           {0x3041, 0x33ff},
                                           {0x3400, 0x9fff},
                                           {0xac00, 0xd7a3},
                                           {0xf900, 0xfaff},
                                           {0xff00, 0xff60},
                                           {0x1f300, 0x1faff},
                                           {0x20000, 0x3fffd}}};
  const auto holds = [c](const Range& r) {
    return c >= r.first && c <= r.last;
  };
  if (std::any_of(kNone.begin(), kNone.end(), holds)) return 0;
  return std::any_of(kWide.begin(), kWide.end(), holds) ? 2 : 1;
}

// Bytes of the escape sequence that the text starts with (ECMA-48: CSI ends
// with a byte of @..~, strings such as OSC with BEL or ESC \\).
size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 1;
  if (text[1] == '[') {
    size_t i = 2;
    while (i < text.size() && text[i] >= 0x20 && text[i] < 0x40) ++i;
    return std::min(text.size(), i + 1);
  }
  if (std::string_view("]P_^X").find(text[1]) == std::string_view::npos) {
    return 2;
  }
  for (size_t i = 2; i < text.size(); ++i) {
    if (text[i] == '\a') return i + 1;
    if (text[i] == '\x1b') return std::min(text.size(), i + 2);
  }
  return text.size();
}

const char* code_of(Color color) {
  switch (color) {
    case Color::none:
      return "";
    case Color::bold:
      return "\x1b[1m";
    case Color::dim:
      return "\x1b[2m";
    case Color::red:
      return "\x1b[31m";
    case Color::green:
      return "\x1b[32m";
    case Color::yellow:
      return "\x1b[33m";
    case Color::blue:
      return "\x1b[34m";
    case Color::cyan:
      return "\x1b[36m";
  }
  return "";
}

}  // namespace

std::string paint(const TextStyle& style, Color color, std::string_view text) {
  if (!style.color || color == Color::none || text.empty()) {
    return std::string(text);
  }
  return fmt::format("{}{}\x1b[0m", code_of(color), text);
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    if (text.front() == '\x1b') {
      text.remove_prefix(escape_length(text));
      continue;
    }
    const CodePoint point = next_code_point(text);
    const char32_t c = point.value;
    if (point.valid && (c == '\n' || c == '\t' || c == '\r')) {
      result += ' ';
    } else if (point.valid && !is_control(c) && !is_direction(c)) {
      result += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes);
  }
  return result;
}

std::string printable_lines(std::string_view text) {
  std::string lines;
  while (true) {
    const size_t end = text.find('\n');
    lines += printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    width += width_of(point.value);
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string fit(std::string_view text, int width, bool unicode) {
  if (display_width(text) <= width) return std::string(text);
  const std::string_view mark = unicode ? "\u2026" : "~";
  if (width < 1) return "";
  int used = 1;  // the mark
  size_t kept = 0;
  while (kept < text.size()) {
    const CodePoint point = next_code_point(text.substr(kept));
    const int next = width_of(point.value);
    if (used + next > width) break;
    used += next;
    kept += point.bytes;
  }
  return std::string(text.substr(0, kept)) + std::string(mark);
}

std::string fit_both_ends(std::string_view text, int width, bool unicode) {
  if (display_width(text) <= width) return std::string(text);
  const int end = width * 2 / 5;
  std::string_view rest = text;
  while (display_width(rest) > end) {
    rest.remove_prefix(next_code_point(rest).bytes);
  }
  return fit(text, width - display_width(rest), unicode) + std::string(rest);
}

std::string pad_right(std::string_view text, int width) {
  const int missing = std::max(0, width - display_width(text));
  return std::string(text) + std::string(static_cast<size_t>(missing), ' ');
}

std::string pad_left(std::string_view text, int width) {
  const int missing = std::max(0, width - display_width(text));
  return std::string(static_cast<size_t>(missing), ' ') + std::string(text);
}

std::string format_metric(double value) {
  if (!std::isfinite(value)) {
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  const double size = std::abs(value);
  if ((size > 0 && size < 1e-3) || size >= 1e6)
    return fmt::format("{:.3g}", value);
  if (size < 10) return fmt::format("{:.4f}", size > 0 ? value : 0);
  return size < 1000 ? fmt::format("{:.2f}", value)
                     : fmt::format("{:.0f}", value);
}

std::string format_parameter(const Point& point, const std::string& name) {
  const auto found = point.find(name);
  if (found == point.end()) return "";
  if (const double* real = std::get_if<double>(&found->second)) {
    return fmt::format("{:.3g}", *real);
  }
  return printable(to_string(found->second));
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const auto first = static_cast<std::ptrdiff_t>(count < 0);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > first;
       i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return digits;
}

std::string format_step(int step, int horizon) {
  constexpr int kOpen = 1'000'000;  // no study counts that far
  return horizon < kOpen ? fmt::format("{}/{}", step, horizon)
                         : std::to_string(step);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 1) return seconds <= 0 ? "0s" : "<1s";
  return format_duration(from_seconds(seconds));
}

std::string sparkline(const std::vector<double>& values, const Scale& scale,
                      int width, bool unicode) {
  constexpr std::array<const char*, 8> kBars = {"\u2581", "\u2582", "\u2583",
                                                "\u2584", "\u2585", "\u2586",
                                                "\u2587", "\u2588"};
  constexpr std::array<const char*, 8> kPlain = {"_", ".", ":", "-",
                                                 "=", "+", "*", "#"};
  const auto& bars = unicode ? kBars : kPlain;
  const size_t columns =
      std::min(values.size(), static_cast<size_t>(std::max(0, width)));
  std::string line;
  for (size_t i = 0; i < columns; ++i) {
    // The last value of each of `columns` equal parts: the end is exact.
    const double value = values[(i + 1) * values.size() / columns - 1];
    if (!std::isfinite(value)) {
      line += ' ';
      continue;
    }
    const double place = scale.high > scale.low ? scale.share(value) : 0.5;
    const double level = std::floor(std::clamp(place, 0.0, 1.0) * 7.999);
    line += bars[static_cast<size_t>(level)];
  }
  return line;
}

std::string progress_bar(double fraction, int width, bool unicode) {
  const double share = std::isfinite(fraction) ? fraction : 0;
  const int filled = static_cast<int>(
      std::floor(std::clamp(share, 0.0, 1.0) * std::max(0, width)));
  std::string bar;
  for (int i = 0; i < width; ++i) {
    bar += i < filled ? (unicode ? "\u2588" : "#") : (unicode ? "\u2591" : ".");
  }
  return bar;
}

namespace {

// In the form $'...' of bash, zsh and ksh, on one line and harmless on a
// terminal whatever it holds.
std::string escape_quoted(const std::string& word) {
  std::string quoted = "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\'' || c == '\\') {
      quoted += std::string("\\") + c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      quoted += fmt::format("\\{:03o}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace

std::string shell_quoted(const std::string& word) {
  return printable(word) == word ? shell_word(word) : escape_quoted(word);
}

std::string quoted_command(const std::string& command) {
  const char mark = command.find('\'') == std::string::npos ? '\'' : '`';
  return mark + command + mark;
}

}  // namespace dtune
