// What the documents say of recipes and of JSON answers, against the program.
#include <algorithm>
#include <regex>

#include "app/documents.h"
#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/config/recipe_file.h"
#include "dtune/config/schema.h"
#include "dtune/study/layers.h"
#include "dtune/study/metrics.h"
#include "dtune/study/study.h"
#include "dtune/tuner/factory.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Dotted keys that recipes/README.md lists.
Words documented_keys() {
  Words keys;
  std::string prefix;
  bool listing = false;
  static const std::regex heading("## `([a-z]+)`");
  static const std::regex item("- `([a-z0-9_.]+)`: .*");
  std::smatch match;
  for (const std::string& line : lines_in(kRecipeDocument)) {
    if (line.starts_with("## ")) {
      listing = true;
      if (std::regex_match(line, match, heading)) {
        prefix = match[1].str() + ".";
      } else {
        prefix = "";
        listing = line == "## Keys at the top" ||
                  line == "## `sampler` and `scheduler`";
      }
    } else if (listing && std::regex_match(line, match, item)) {
      CHECK_MESSAGE(keys.insert(prefix + match[1].str()).second, line);
    }
  }
  return keys;
}

Words real_keys() {
  const auto& keys = recipe_keys();
  return {keys.begin(), keys.end()};
}

RecipeFile parse(const std::string& yaml) {
  return RecipeFile::parse(yaml, "example.yaml", kRoot / "recipes");
}

// Keys whose default is empty are not among recipe_keys(): whether a recipe may
// have them.
bool is_read(const std::string& dotted) {
  std::string yaml = dotted + ": x";
  for (size_t dot = yaml.rfind('.'); dot != std::string::npos;
       dot = yaml.rfind('.')) {
    yaml = yaml.substr(0, dot) + ": { " + yaml.substr(dot + 1) + " }";
  }
  if (yaml.starts_with("command: {")) yaml.insert(10, " run: awk,");
  try {
    parse(yaml);
  } catch (const Error& error) {
    return !contains(error.what(), "unknown key");
  }
  return true;
}

}  // namespace

TEST_CASE("every key of a recipe is documented, and nothing else is") {
  const Words documented = documented_keys();
  const Words real = real_keys();
  for (const std::string& key : real) {
    CHECK_MESSAGE(documented.contains(key), "not documented: " << key);
  }
  for (const std::string& key : documented) {
    CHECK_MESSAGE((real.contains(key) || is_read(key)), "no key: " << key);
  }
}

TEST_CASE("samplers, schedulers and layers are documented with their options") {
  const std::string text = section(kRecipeDocument, "Samplers and schedulers");
  const Words words = matches(text, "`([a-z_-]+)`");
  for (const auto* kinds : {&sampler_kinds(), &scheduler_kinds()}) {
    for (const NamedKind& kind : *kinds) {
      CHECK_MESSAGE(words.contains(kind.name), kind.name);
      for (const std::string& option : kind.options) {
        CHECK_MESSAGE(words.contains(option), option);
      }
    }
  }
  const Words layers =
      matches(section(kRecipeDocument, "Layers"), "`([a-z_]+)`");
  for (const std::string& kind : layer_kind_names()) {
    CHECK_MESSAGE(layers.contains(kind), kind);
  }
}

TEST_CASE("every metric is documented where it may be named") {
  const Words objectives =
      matches(section(kRecipeDocument, "`objective`"), "`([a-z_]+)`");
  for (const std::string& metric : step_metrics()) {
    CHECK_MESSAGE(objectives.contains(metric), metric);
  }
  const Words expected =
      matches(section(kRecipeDocument, "Keys at the top"), "`([a-z_]+)`");
  const Words bounded =
      matches(section(kRecipeDocument, "Bounds and trade-offs"), "`([a-z_]+)`");
  for (const StudyMetric& metric : study_metrics()) {
    CHECK_MESSAGE(expected.contains(metric.name), metric.name);
  }
  for (const std::string& metric : all_metrics()) {
    CHECK_MESSAGE((expected.contains(metric) || bounded.contains(metric)),
                  metric);
  }
}

TEST_CASE("every recipe in a document is one") {
  int recipes = 0;
  for (const std::string& file : kDocuments) {
    for (const Block& block : read_readme(file).blocks) {
      if (block.language != "yaml") continue;
      ++recipes;
      CAPTURE(file);
      CAPTURE(block.text);
      CHECK_NOTHROW(parse(block.text));
    }
  }
  CHECK(recipes >= 10);
}

TEST_CASE("short forms mean their long ones") {
  static const std::regex row("\\| `([^`]+)` *\\| `([^`]+)` *\\|");
  std::smatch match;
  int rows = 0;
  for (const std::string& line :
       lines_of(section(kRecipeDocument, "Short forms"))) {
    if (!std::regex_match(line, match, row)) continue;
    ++rows;
    CAPTURE(line);
    CHECK(parse(match[1]).resolved_yaml() == parse(match[2]).resolved_yaml());
  }
  CHECK(rows >= 10);
}

// The keys of the document of `dtune COMMAND --json`, as recipes/README.md has
// them; keys of values that are objects are among them.
TEST_CASE("JSON answers have the keys that are documented") {
  const std::string text = section(kRecipeDocument, "JSON answers");
  const Words trial = matches(text, "\"([a-z_]+)\": ");
  const auto documented = [&](const std::string& command) {
    const size_t begin = text.find("- `dtune " + command);
    REQUIRE(begin != std::string::npos);
    const size_t end = text.find("\n- ", begin);
    const std::string item = text.substr(begin, end - begin);
    Words words = matches(item, "`([a-z_]+)`");
    if (contains(item, "TRIAL")) words.insert(trial.begin(), trial.end());
    return words;
  };
  Words status = documented("status");
  Workplace place;
  place.write("s.yaml", shell_recipe(3, 2, "0"));
  REQUIRE(place.run({"run", "s.yaml", "--quiet"}).code == 0);
  const auto check = [&](const std::vector<std::string>& words,
                         const std::string& command, Words more = {}) {
    CAPTURE(command);
    std::vector<std::string> line = words;
    line.push_back("--json");
    auto answer = nlohmann::json::parse(place.run(line).out);
    if (answer.is_array()) answer = answer.at(0);
    more.merge(documented(command));
    for (const auto& [key, value] : answer.items()) {
      CHECK_MESSAGE(more.contains(key), key);
    }
  };
  check({"best", "s.db"}, "best", {"val_accuracy"});
  Words run = documented("best");
  run.insert("val_accuracy");
  check({"run", "s.yaml", "--quiet"}, "run`", run);
  check({"status", "s.db"}, "status");
  check({"show", "s.db", "1"}, "show");
  check({"ls", "."}, "ls");
  check({"export", "s.db"}, "export --json", status);
  check({"plan", "s.yaml"}, "plan");
  check({"validate", "s.yaml"}, "validate");
  check({"explain", "s.db"}, "explain");
  check({"explain", "s.db", "1"}, "explain");
  check({"replay", "s.db"}, "replay");
  check({"doctor"}, "doctor");
  check({"keygen", "--output", "keys"}, "keygen");
}

TEST_CASE("keys that documents name exist") {
  static const std::regex dotted("([a-z]+)(\\.[a-z0-9_]+)+(=.*)?");
  static const std::regex file_name(".*\\.(cc|h|yaml|safetensors|db|files)");
  Words sections;
  for (const std::string& key : real_keys()) {
    if (key.find('.') != std::string::npos) {
      sections.insert(key.substr(0, key.find('.')));
    }
  }
  std::smatch match;
  for (const std::string& file : kDocuments) {
    for (const std::string& span : read_readme(file).spans) {
      if (!std::regex_match(span, match, dotted)) continue;
      if (!sections.contains(match[1])) continue;
      if (std::regex_match(span, file_name)) continue;
      CHECK_MESSAGE(is_key(span.substr(0, span.find('='))),
                    file << ": " << span);
    }
  }
}
