// The commands and options that the documents name, against the program.
#include <map>
#include <regex>

#include "app/documents.h"
#include "app/program.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

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

}  // namespace

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
