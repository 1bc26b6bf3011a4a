#include "dtune/base/text.h"

#include <algorithm>

namespace dtune {
namespace {

bool is_alphanumeric(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') ||
         ('0' <= c && c <= '9');
}

}  // namespace

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const std::string_view trimmed = trim(word, " ");
    if (!trimmed.empty()) words.emplace_back(trimmed);
  }
  return words;
}

std::string_view trim(std::string_view text, std::string_view blanks) {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

bool is_plain(std::string_view text, std::string_view signs) {
  return std::ranges::all_of(text, [signs](char c) {
    return is_alphanumeric(c) || signs.find(c) != std::string_view::npos;
  });
}

bool contains_any(std::string_view text,
                  std::initializer_list<std::string_view> any) {
  return std::ranges::any_of(any, [text](std::string_view one) {
    return text.find(one) != std::string_view::npos;
  });
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string as_label(std::string_view text) {
  std::string label = lower_case(text);
  for (char& c : label) {
    if (!is_alphanumeric(c)) c = '-';
  }
  return label;
}

std::string shell_word(const std::string& text) {
  if (!text.empty() && is_plain(text, "-._/:=,@%+")) return text;
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

std::string escape_markup(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&apos;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) safe += c;
    }
  }
  return safe;
}

}  // namespace dtune
