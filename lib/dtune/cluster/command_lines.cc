#include "dtune/cluster/command_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dtune {
namespace {

constexpr std::string_view kInvalid = "dtune: invalid";
constexpr std::string_view kBlanks = " \t\r,;";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<double> value_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    return text.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
  }
  if (error != std::errc{}) return std::nullopt;
  return value;
}

struct Pair {
  std::string_view name;
  double value;
};

std::optional<Pair> parse_pair(std::string_view word) {
  const size_t equal = word.find('=');
  if (equal == 0 || equal == std::string_view::npos) return std::nullopt;
  const auto value = value_of(word.substr(equal + 1));
  if (!value) return std::nullopt;
  return Pair{word.substr(0, equal), *value};
}

// "1,234.5", "0,45": the comma is part of the number, whatever it stands for.
bool cuts_number(std::string_view text, size_t end) {
  return end > 0 && end + 1 < text.size() && text[end] == ',' &&
         is_digit(text[end - 1]) && is_digit(text[end + 1]);
}

bool take_step(double value, CommandLine& line) {
  if (!(value >= 1 && value <= 1e9) || value != std::floor(value)) return false;
  line.step = static_cast<int>(value);
  return true;
}

}  // namespace

std::optional<CommandLine> parse_command_line(std::string_view text,
                                              std::string_view objective) {
  CommandLine line;
  if (text.starts_with(kInvalid)) {
    line.invalid = true;
    text.remove_prefix(kInvalid.size());
    text.remove_prefix(std::min(text.find_first_not_of(" :"), text.size()));
    line.why = std::string(text.substr(0, 500));
    return line;
  }
  bool only_pairs = true;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) break;
    const size_t size = std::min(text.find_first_of(kBlanks), text.size());
    const auto pair = cuts_number(text, size)
                          ? std::nullopt
                          : parse_pair(text.substr(0, size));
    text.remove_prefix(size);
    if (!pair) {
      only_pairs = false;
    } else if (pair->name != "step") {
      line.metrics[std::string(pair->name)] = pair->value;
    } else if (!take_step(pair->value, line)) {
      return std::nullopt;
    }
  }
  const bool named = line.metrics.contains(std::string(objective));
  if (!named && (!only_pairs || line.metrics.empty())) return std::nullopt;
  return line;
}

void LineBuffer::add(std::string_view text) {
  text_.erase(0, begin_);
  begin_ = 0;
  if (skipping_) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    skipping_ = false;
  }
  text_ += text;
}

std::optional<std::string> LineBuffer::next(bool rest) {
  const size_t end = text_.find('\n', begin_);
  const size_t left = text_.size() - begin_;
  if (end == std::string::npos) {
    const bool too_long = left >= kMaxLine;
    if (left == 0 || !(rest || too_long)) return std::nullopt;
    std::string line = text_.substr(begin_, kMaxLine);
    text_.clear();
    begin_ = 0;
    skipping_ = too_long;
    return line;
  }
  std::string line = text_.substr(begin_, std::min(end - begin_, kMaxLine));
  begin_ = end + 1;
  return line;
}

}  // namespace dtune
