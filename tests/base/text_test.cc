#include "dtune/base/text.h"

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

namespace dtune {
namespace {

TEST_CASE("a number is the whole text or none") {
  CHECK(parse_number<int>("-12") == -12);
  CHECK(parse_number<double>("1e-3") == 1e-3);
  CHECK(parse_number<double>("inf") == std::numeric_limits<double>::infinity());
  CHECK(parse_number<uint8_t>("255") == 255);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number<int>(text));
    CHECK_FALSE(parse_number<double>(text));
  }
  CHECK_FALSE(parse_number<int>("1.5"));
  CHECK_FALSE(parse_number<uint8_t>("256"));
  CHECK_FALSE(parse_number<uint64_t>("-1"));
}

TEST_CASE("a list is split at its commas") {
  using Words = std::vector<std::string>;
  CHECK(split_list("a,b c, d ") == Words{"a", "b c", "d"});
  CHECK(split_list(",a,,b,") == Words{"a", "b"});
  CHECK(split_list("").empty());
  CHECK(split_list(" , ").empty());
}

TEST_CASE("blanks at the ends are cut off") {
  CHECK(trim(" a b\t") == "a b");
  CHECK(trim("a") == "a");
  CHECK(trim(" \t").empty());
  CHECK(trim(";a ;", " ;") == "a");
}

TEST_CASE("signs of a text are known") {
  CHECK(is_plain("aZ09_-", "-_"));
  CHECK(is_plain("", ""));
  CHECK_FALSE(is_plain("a b", "-_"));
  CHECK_FALSE(is_plain("\xc3\xa4", "-_"));
  CHECK(contains_any("connection refused", {"timed out", "refused"}));
  CHECK_FALSE(contains_any("refuse", {"timed out", "refused"}));
  CHECK(as_label("My_Study 2\xc3\xa4") == "my-study-2--");
  CHECK(lower_case("My_Study 2\xc3\x84") == "my_study 2\xc3\x84");
}

TEST_CASE("texts are escaped for markup") {
  CHECK(escape_markup("a<b> & \"c\" 'd'\n") ==
        "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;");
}

}  // namespace
}  // namespace dtune
