// What the documents say of files, headers and modules, against the tree.
#include "app/documents.h"

#include <map>
#include <regex>

#include <doctest/doctest.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

// Names of the files of a folder and below it, without what is built.
Words file_names() {
  Words names;
  for (const char* folder : {"app", "lib", "recipes", "tests", "third_party"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      names.insert(entry.path().filename());
    }
  }
  return names;
}

// module -> modules that it may include, as tests/includes.cmake has it.
std::map<std::string, Words> arrows() {
  std::map<std::string, Words> arrows;
  static const std::regex line_of("set\\(may_([a-z_]+) (.*)\\)");
  std::smatch match;
  for (const std::string& line : lines_in("tests/includes.cmake")) {
    if (!std::regex_match(line, match, line_of)) continue;
    arrows[match[1]] = matches(match[2], "([a-z_]+)");
  }
  return arrows;
}

}  // namespace

TEST_CASE("the README is short") { CHECK(lines_in("README.md").size() <= 130); }

TEST_CASE("every README is checked here") {
  Words all = {"README.md"};
  for (const char* folder : {"app", "lib", "recipes", "tests", "third_party"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().filename() != "README.md") continue;
      all.insert(fs::relative(entry.path(), kRoot));
    }
  }
  CHECK(all == Words(kDocuments.begin(), kDocuments.end()));
}

TEST_CASE("files that documents name exist") {
  const Words names = file_names();
  static const std::regex path(
      "(app|lib|recipes|tests|third_party)/[a-z_0-9/]+"
      "(\\.[a-z]+)?/?");
  static const std::regex name("[a-z_0-9-]+\\.(cc|h|cmake|sh|txt)");
  for (const std::string& file : kDocuments) {
    for (const std::string& span : read_readme(file).spans) {
      if (std::regex_match(span, path)) {
        CHECK_MESSAGE(fs::exists(kRoot / span), file << ": " << span);
      } else if (std::regex_match(span, name)) {
        CHECK_MESSAGE(names.contains(span), file << ": " << span);
      }
    }
  }
}

// The table of what happens to slow ranks names a test for each of its rows.
TEST_CASE("tests that the documents of gangs name exist") {
  Words tests;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() != ".cc") continue;
    tests.merge(
        matches(read_file(entry.path()), "TEST_CASE\\(\\s*\"([^\"]+)\""));
  }
  int rows = 0;
  for (const std::string& line : lines_in("lib/dtune/gang/README.md")) {
    if (!line.starts_with("| `") && !line.starts_with("| any")) continue;
    ++rows;
    const Words named = matches(line, "\"([^\"]+)\" +\\|$");
    CAPTURE(line);
    REQUIRE(named.size() == 1);
    CHECK(tests.contains(*named.begin()));
  }
  CHECK(rows >= 20);
}

TEST_CASE("every module is in the table of the library with what it includes") {
  std::map<std::string, Words> table;
  static const std::regex row("\\| `([a-z_]+)` *\\|[^|]*\\|([^|]*)\\|");
  std::smatch match;
  for (const std::string& line :
       lines_of(section("lib/README.md", "Modules"))) {
    if (!std::regex_match(line, match, row)) continue;
    table[match[1]] = matches(match[2], "`([a-z_]+)`");
  }
  CHECK(table == arrows());
  for (const auto& entry : fs::directory_iterator(kRoot / "lib/dtune")) {
    if (!entry.is_directory()) continue;
    const std::string module = entry.path().filename();
    CHECK_MESSAGE(table.contains(module), module);
  }
}

// tests/README.md lists headers without a test of their name, and where their
// tests are.
TEST_CASE(
    "every header has a test of its name or a line that names its tests") {
  const std::string text =
      section("tests/README.md", "Where a header is tested");
  const Words listed = matches(text, "`([a-z_0-9]+\\.h)`");
  const Words tests = matches(text, "`([a-z_0-9]+_test\\.cc)`");
  Words headers;
  for (const auto& entry :
       fs::recursive_directory_iterator(kRoot / "lib/dtune")) {
    if (entry.path().extension() != ".h") continue;
    const fs::path header = fs::relative(entry.path(), kRoot / "lib/dtune");
    const std::string test = header.stem().string() + "_test.cc";
    headers.insert(header.filename());
    const bool tested = fs::exists(kRoot / "tests" / *header.begin() / test) ||
                        listed.contains(header.filename());
    CHECK_MESSAGE(tested, header.string());
  }
  const Words names = file_names();
  for (const std::string& header : listed) {
    CHECK_MESSAGE(headers.contains(header), header);
  }
  for (const std::string& test : tests) {
    CHECK_MESSAGE(names.contains(test), test);
  }
}
