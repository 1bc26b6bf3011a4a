// Numbers, lists and words in texts, and texts in markup.
#pragma once

#include <charconv>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dtune {

// The number that is the whole text, as std::from_chars reads it: without '+'
// or spaces; reals may be "inf" or "nan". nullopt where it is not a number or
// out of the range of its type.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// The words between the commas, without the spaces around them; what is empty
// is left out.
std::vector<std::string> split_list(std::string_view text);

// Without the `blanks` at both ends.
std::string_view trim(std::string_view text, std::string_view blanks = " \t");

// ASCII letters, digits and the `signs` alone; true of "".
bool is_plain(std::string_view text, std::string_view signs);
bool contains_any(std::string_view text,
                  std::initializer_list<std::string_view> any);

// With small letters for ASCII's capital ones.
std::string lower_case(std::string_view text);

// In lower case, with '-' for all but ASCII letters and digits.
std::string as_label(std::string_view text);

// A word for a POSIX shell, quoted where it has to be.
std::string shell_word(const std::string& text);

// For an element or an attribute of XML or HTML. Control characters, for which
// XML 1.0 has no way, are left out.
std::string escape_markup(std::string_view text);

}  // namespace dtune
