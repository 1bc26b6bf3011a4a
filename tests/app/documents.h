// The project's documents, taken apart for the tests that compare them with the
// program.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace dtune {

using Words = std::set<std::string>;

extern const std::filesystem::path kRoot;  // of the source tree
extern const std::vector<std::string> kDocuments;
extern const std::string kRecipeDocument;

std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> lines_in(const std::string& file);

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
Readme read_readme(const std::string& file);

// The lines of a document below a heading.
std::string section(const std::string& file, const std::string& heading);

// The first group of each match.
Words matches(const std::string& text, const std::string& pattern);

// A key of recipes, a section, or what is below a key whose form is its own.
bool is_key(const std::string& dotted);

}  // namespace dtune
