#include "dtune/report/text.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/report/table.h"

namespace dtune {

TEST_CASE("what could control a terminal is taken out of texts") {
  CHECK(printable("plain \u00e9 \u65e5") == "plain \u00e9 \u65e5");
  CHECK(printable("a\x1b[2J\x1b[31mb\x1b[0m") == "ab");
  CHECK(printable("title\x1b]0;owned\a!\x1b]0;x\x1b\\!") == "title!!");
  CHECK(printable("a\nb\tc\r") == "a b c ");
  CHECK(printable(std::string("a\0b\x7f\b", 5)) == "ab");
  CHECK(printable("a\xc2\x9b"
                  "2Jb") == "a2Jb");                     // C1: CSI in one code
  CHECK(printable("a\u202eb\u2066c") == "abc");          // turned direction
  CHECK(printable("a\xff\xc3(\xed\xa0\x80z") == "a(z");  // no UTF-8
  CHECK(printable("cut\x1b") == "cut");
  CHECK(printable_lines("a\x1b[2J\n b\a\n") == "a\n b\n");
  CHECK(printable("cut\x1b[12") == "cut");
}

TEST_CASE("widths count columns, not bytes") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("\u00e9\u2588") == 2);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("\u65e5\u672c") == 4);
  CHECK(fit("abcdef", 6, true) == "abcdef");
  CHECK(fit("abcdefg", 6, true) == "abcde\u2026");
  CHECK(fit("abcdefg", 6, false) == "abcde~");
  CHECK(display_width(fit("\u65e5\u672c\u8a9e", 4, true)) <= 4);
  CHECK(fit("abc", 0, true) == "");
  CHECK(fit_both_ends("abcdef", 6, true) == "abcdef");
  CHECK(fit_both_ends("abcdefghijkl", 10, true) == "abcde\u2026ijkl");
  CHECK(fit_both_ends("abcdefghijkl", 10, false) == "abcde~ijkl");
  CHECK(pad_left("\u00e9", 3) == "  \u00e9");
  CHECK(pad_right("abcd", 3) == "abcd");
}

TEST_CASE("numbers are for people") {
  CHECK(format_metric(0.91234) == "0.9123");
  CHECK(format_metric(12.345) == "12.35");
  CHECK(format_metric(1234.5) == "1234");
  CHECK(format_metric(1.25e-5) == "1.25e-05");
  CHECK(format_metric(0) == "0.0000");
  CHECK(format_metric(-0.0) == "0.0000");
  CHECK(format_metric(std::nan("")) == "nan");
  CHECK(format_metric(-HUGE_VAL) == "-inf");
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1234567) == "1,234,567");
  CHECK(format_count(-1234) == "-1,234");
  CHECK(format_step(3, 12) == "3/12");
  CHECK(format_step(3, 1'000'000'000) == "3");
  CHECK(format_seconds(0.2) == "<1s");
  CHECK(format_seconds(83) == "1m23s");
  CHECK(format_seconds(std::nan("")) == "?");
  const Point point = {{"lr", 0.031234}, {"n", int64_t{32}}};
  CHECK(format_parameter(point, "lr") == "0.0312");
  CHECK(format_parameter(point, "n") == "32");
  CHECK(format_parameter(point, "none") == "");
}

TEST_CASE("a sparkline ends with the last value and leaves gaps") {
  const Scale scale{0, 1};
  CHECK(sparkline({0, 0.5, 1}, scale, 10, true) == "\u2581\u2584\u2588");
  CHECK(sparkline({0, 0.5, 1}, scale, 10, false) == "_-#");
  CHECK(sparkline({-5, std::nan(""), 7}, scale, 10, false) == "_ #");
  CHECK(sparkline({0, 0, 0, 0, 0, 0, 0, 1}, scale, 4, false) == "___#");
  CHECK(sparkline({}, scale, 4, true) == "");
  CHECK(sparkline({1, 1}, {1, 1}, 4, false) == "--");
  CHECK(sparkline({-1e308, 1e308}, {-1e308, 1e308}, 4, false) == "_#");
}

TEST_CASE("a progress bar is as wide as it should be") {
  CHECK(progress_bar(0.5, 4, false) == "##..");
  CHECK(progress_bar(-1, 4, false) == "....");
  CHECK(progress_bar(7, 4, false) == "####");
  CHECK(progress_bar(std::nan(""), 4, false) == "....");
  CHECK(display_width(progress_bar(0.3, 17, true)) == 17);
}

TEST_CASE("words for the shell are quoted where they must be") {
  CHECK(shell_quoted("a/b-c.db") == "a/b-c.db");
  CHECK(shell_quoted("my study.db") == "'my study.db'");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("$(rm)") == "'$(rm)'");
  CHECK(shell_quoted("a\tb\n'\\\x1b[1m\xff") ==
        "$'a\\011b\\n\\'\\\\\\033[1m\\377'");
}

TEST_CASE("a command within a sentence has no quotes inside quotes") {
  CHECK(quoted_command("dtune ls a") == "'dtune ls a'");
  CHECK(quoted_command("dtune ls " + shell_quoted("my studies")) ==
        "`dtune ls 'my studies'`");
}

TEST_CASE("a table leaves out its least important columns first") {
  const std::vector<TableColumn> columns = {
      {"name", false, 0, 10}, {"n", true, 1, 5}, {"note", false, 2, 40}};
  const std::vector<TableRow> rows = {
      {{"ab", {}}, {"1", {}}, {"a rather long remark", {}}},
      {{"abcdefghijkl", {}}, {"22", {}}, {"", {}}}};
  const auto wide = render_table(columns, rows, {false, false, 60});
  REQUIRE(wide.size() == 3);
  CHECK(wide[0] == "name         n  note");
  CHECK(wide[1] == "ab           1  a rather long remark");
  CHECK(wide[2] == "abcdefghi~  22");
  CHECK(render_table(columns, rows, {false, false, 26})[1] ==
        "ab           1  a rather ~");
  CHECK(render_table(columns, rows, {false, false, 20})[1] == "ab           1");
  CHECK(render_table(columns, rows, {false, false, 11})[1] == "ab");
  CHECK(render_table(columns, rows, {false, false, 5})[2] == "abcd~");
}

}  // namespace dtune
