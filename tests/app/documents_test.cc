// The project's documents against the program: what they name exists, and what
// exists is named.
#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/config/recipe_file.h"
#include "dtune/config/schema.h"
#include "dtune/study/layers.h"
#include "dtune/tuner/factory.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;
using Words = std::set<std::string>;

const fs::path kRoot = DTUNE_SOURCE_DIR;

const std::vector<std::string> kDocuments = {"README.md",
                                             "app/README.md",
                                             "lib/README.md",
                                             "lib/dtune/cluster/README.md",
                                             "lib/dtune/tuner/README.md",
                                             "recipes/README.md",
                                             "tests/README.md",
                                             "third_party/README.md"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> lines_in(const std::string& file) {
  return lines_of(read_file(kRoot / file));
}

// A fenced block: its language ("yaml", "sh", "") and its lines.
struct Block {
  std::string language;
  std::string text;
};

// A document taken apart: blocks, `spans` of code, and prose without blocks.
struct Readme {
  std::vector<Block> blocks;
  std::vector<std::string> spans;
  std::vector<std::string> prose;
};

Readme read_readme(const std::string& file) {
  Readme document;
  std::string paragraph;
  bool inside = false;
  for (const std::string& line : lines_in(file)) {
    if (line.starts_with("```")) {
      if (!inside) document.blocks.push_back({line.substr(3), ""});
      inside = !inside;
    } else if (inside) {
      document.blocks.back().text += line + '\n';
    } else {
      document.prose.push_back(line);
      const size_t first = line.find_first_not_of(' ');
      paragraph += (first == std::string::npos ? "" : line.substr(first)) + ' ';
    }
  }
  CHECK_FALSE(inside);
  static const std::regex span("`([^`]+)`");
  for (std::sregex_iterator it(paragraph.begin(), paragraph.end(), span), end;
       it != end; ++it) {
    document.spans.push_back((*it)[1]);
  }
  return document;
}

Words matches(const std::string& text, const std::string& pattern) {
  Words found;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end;
       ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

// The lines of a document below a heading.
std::string section(const std::string& file, const std::string& heading) {
  std::string text;
  bool inside = false;
  for (const std::string& line : lines_in(file)) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (inside) text += line + '\n';
  }
  CHECK_MESSAGE(!text.empty(), heading);
  return text;
}

const std::string kRecipes = "recipes/README.md";

// Dotted keys that recipes/README.md lists.
Words documented_keys() {
  Words keys;
  std::string prefix;
  bool listing = false;
  static const std::regex heading("## `([a-z]+)`");
  static const std::regex item("- `([a-z0-9_.]+)`: .*");
  std::smatch match;
  for (const std::string& line : lines_in(kRecipes)) {
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

// A key, a section, or what is below a key whose form is its own.
bool is_key(const std::string& dotted) {
  static const Words keys = real_keys();
  if (dotted.starts_with("model.layers.") || dotted.starts_with("space.")) {
    return true;
  }
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return key == dotted || key.starts_with(dotted + ".");
  });
}

// Help texts of the program: by command, and of all together.
class Commands {
 public:
  Commands() {
    const std::string list = place_.run({"help"}).out;
    names_ =
        matches(list.substr(0, list.find("\nTopics")), "\n  ([a-z]+) +[A-Z]");
    for (const std::string& name : names_) {
      help_[name] = place_.run({name, "--help"}).out;
      all_ += help_[name];
    }
  }

  const Words& names() const { return names_; }
  bool has_command(const std::string& name) const {
    return help_.contains(name);
  }
  bool has_option(const std::string& command, const std::string& option) const {
    return in(help_.at(command), option);
  }
  bool has_option(const std::string& option) const { return in(all_, option); }

 private:
  static bool in(const std::string& help, const std::string& option) {
    return std::regex_search(help, std::regex(option + "([ ,=\n]|$)"));
  }

  Workplace place_;
  Words names_;
  std::map<std::string, std::string> help_;
  std::string all_;
};

// Command lines of a document: spans and lines of shell blocks that start with
// dtune, their continuations joined, without comments.
std::vector<std::string> command_lines(const Readme& document) {
  std::vector<std::string> lines;
  for (const std::string& span : document.spans) lines.push_back(span);
  for (const Block& block : document.blocks) {
    if (block.language != "sh") continue;
    const std::string joined =
        std::regex_replace(block.text, std::regex("\\\\\n *"), "");
    for (const std::string& line : lines_of(joined)) {
      lines.push_back(line.substr(0, line.find(" #")));
    }
  }
  std::erase_if(lines, [](const std::string& line) {
    return !line.starts_with("dtune ");
  });
  return lines;
}

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
  const std::string text = section(kRecipes, "Samplers and schedulers");
  const Words words = matches(text, "`([a-z_-]+)`");
  for (const auto* kinds : {&sampler_kinds(), &scheduler_kinds()}) {
    for (const NamedKind& kind : *kinds) {
      CHECK_MESSAGE(words.contains(kind.name), kind.name);
      const Words listed = matches(kind.summary, "options?: ([a-z_, ]+)\\)");
      for (const std::string& list : listed) {
        for (const std::string& option : matches(list, "([a-z_]+)")) {
          CHECK_MESSAGE(words.contains(option), option);
        }
      }
    }
  }
  const Words layers = matches(section(kRecipes, "Layers"), "`([a-z_]+)`");
  for (const std::string& kind : layer_kind_names()) {
    CHECK_MESSAGE(layers.contains(kind), kind);
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
  for (const std::string& line : lines_of(section(kRecipes, "Short forms"))) {
    if (!std::regex_match(line, match, row)) continue;
    ++rows;
    CAPTURE(line);
    CHECK(parse(match[1]).resolved_yaml() == parse(match[2]).resolved_yaml());
  }
  CHECK(rows >= 10);
}

TEST_CASE("commands and options that documents name exist") {
  const Commands commands;
  CHECK(commands.names().size() >= 20);
  static const std::regex command("dtune ([a-z]+)( .*)?");
  std::smatch match;
  for (const std::string& file : kDocuments) {
    CAPTURE(file);
    const Readme document = read_readme(file);
    for (const std::string& line : command_lines(document)) {
      CAPTURE(line);
      if (!std::regex_match(line, match, command)) continue;
      const std::string name = match[1];
      CHECK_MESSAGE(commands.has_command(name), name);
      if (!commands.has_command(name)) continue;
      for (const std::string& option : matches(line, "(--[a-z-]+)")) {
        CHECK_MESSAGE(commands.has_option(name, option), option);
      }
      for (const std::string& key : matches(line, "--set ([a-z0-9_.]+)=")) {
        CHECK_MESSAGE(is_key(key), key);
      }
    }
    for (const std::string& span : document.spans) {
      for (const std::string& option : matches(span, "^(--[a-z-]+)")) {
        CHECK_MESSAGE(commands.has_option(option), option);
      }
    }
  }
}

TEST_CASE("every command is named in a document") {
  std::string text;
  for (const std::string& file : kDocuments) text += read_file(kRoot / file);
  const Commands commands;
  for (const std::string& name : commands.names()) {
    CHECK_MESSAGE(contains(text, "dtune " + name), name);
  }
}

// The keys of the document of `dtune COMMAND --json`, as recipes/README.md has
// them; keys of values that are objects are among them.
TEST_CASE("JSON answers have the keys that are documented") {
  const std::string text = section(kRecipes, "JSON answers");
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
