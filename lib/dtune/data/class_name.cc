#include "dtune/data/class_name.h"

#include <cstddef>
#include <cstdint>

namespace dtune {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
}

// Length of the well-formed character at the start of `text`, else 0.
size_t character_length(std::string_view text) {
  const uint8_t first = byte_at(text, 0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                        : first >= 0xe0 && first <= 0xef ? 3
                        : first >= 0xf0 && first <= 0xf4 ? 4
                                                         : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies past U+10FFFF.
  const uint8_t second = byte_at(text, 1);
  const bool wrong =
      (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : length;
}

}  // namespace

std::string printable_name(std::string_view raw) {
  std::string name;
  while (!raw.empty()) {
    const size_t length = character_length(raw);
    if (length == 0) {
      name += '?';
      raw.remove_prefix(1);
    } else {
      name += raw.substr(0, length);
      raw.remove_prefix(length);
    }
  }
  return name;
}

}  // namespace dtune
