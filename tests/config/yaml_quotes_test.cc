#include "dtune/config/yaml_quotes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace dtune {
namespace {

// "1:4-1:6 2:4-" of quoted_texts(): the second is never closed.
std::string places(const std::string& text) {
  std::string all;
  for (const QuotedText& quoted : quoted_texts(text)) {
    all += fmt::format("{}{}:{}-", all.empty() ? "" : " ", quoted.begin.line,
                       quoted.begin.column);
    if (!quoted.end) continue;
    all += fmt::format("{}:{}", quoted.end->line, quoted.end->column);
  }
  return all;
}

// "line:column: what" of a text that is not YAML.
std::string problem(const std::string& text) {
  try {
    parse_yaml(text);
  } catch (const YamlProblem& found) {
    return fmt::format("{}:{}: {}", found.mark.line, found.mark.column,
                       found.message);
  }
  return "";
}

TEST_CASE("texts in quotes are found with their ends") {
  CHECK(places("a: \"x\"\n'b': [c, 'it''s', {\"d\":\"e\"}]\n") ==
        "1:4-1:6 2:1-2:3 2:10-2:16 2:20-2:22 2:24-2:26");
  CHECK(places("- \"x\\\"y\"\n- 'z\n  z'\n- \"u\\\n  u\"\n") ==
        "1:3-1:8 2:3-3:4 4:3-5:4");
  CHECK(places("a: 'x'\nb: \"y\nc: 1\n") == "1:4-1:6 2:4-");
}

TEST_CASE("quotes within words, comments and blocks open nothing") {
  for (const char* text :
       {"a: it's\n", "a: x # don't\n", "# \"\na: 1\n", "a: 5\"\n",
        "a: |\n  \"x\n  'y\nb: 1\n", "a: >-\n  it's \"\n\n  'so\n",
        "- |\n  'x\n- b\n", "a: {b: it's, c: 1}\n", "a: x[\"y\n"}) {
    CHECK_MESSAGE(places(text) == "", std::string(text));
  }
}

TEST_CASE("a quote that is not closed is named where it opens") {
  const auto opens_at = [](const std::string& place, const std::string& what,
                           const std::string& text) {
    CAPTURE(text);
    const std::string found = problem(text);
    CHECK_MESSAGE(
        found.starts_with(place + ": the quote that opens here " + what),
        found);
  };
  const std::string never = "is never closed (write a second one";
  opens_at("1:4", never, "a: \"x\nb: 1\n");
  opens_at("2:4", never, "a: 1\nb: 'it''s\n");
  opens_at("2:8", never, "a: 1\nb: {c: '>= 1 }\n");
  opens_at("2:1", never, "a: 1\n\"b: 1\n");
  opens_at("1:4", "is closed on line 2, column 4", "a: \"x\nb: \"y\"\nc: 1\n");
  opens_at("1:4", "is closed on line 1, column 8", "a: 'don't'\n");
}

TEST_CASE("what follows a value on its line is no part of it") {
  CHECK(problem("a: \"x\" y\n") ==
        "1:8: not YAML: end of map not found (what stands here belongs to no "
        "key: quote a text as a whole, and indent a section's lines alike)");
}

}  // namespace
}  // namespace dtune
