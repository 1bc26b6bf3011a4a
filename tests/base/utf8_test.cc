#include "dtune/base/utf8.h"

#include <string>

#include <doctest/doctest.h>

namespace dtune {
namespace {

TEST_CASE("a code point of one to four bytes is read") {
  const auto check = [](const std::string& text, char32_t value) {
    const CodePoint point = next_code_point(text + "x");
    CHECK(point.valid);
    CHECK(point.value == value);
    CHECK(point.bytes == text.size());
  };
  check("a", 'a');
  check("\xc3\xa9", 0xe9);
  check("\xe7\x8c\xab", 0x732b);
  check("\xf0\x9f\x90\x88", 0x1f408);
}

TEST_CASE("what is no UTF-8 is an invalid byte") {
  for (const char* text : {"\xe9", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\x80"}) {
    CHECK_FALSE(next_code_point(text).valid);
    CHECK(next_code_point(text).bytes == 1);
  }
}

}  // namespace
}  // namespace dtune
