// Characters of texts.
#pragma once

#include <cstddef>
#include <string_view>

namespace dtune {

struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};

// The first code point of UTF-8; an invalid byte counts one. Overlong forms,
// surrogates and what lies past U+10FFFF are invalid.
// REQUIRES: the text is not empty.
CodePoint next_code_point(std::string_view text);

}  // namespace dtune
