#include "app/documents.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/config/schema.h"

namespace dtune {

const std::filesystem::path kRoot = DTUNE_SOURCE_DIR;

const std::vector<std::string> kDocuments = {"README.md",
                                             "app/README.md",
                                             "lib/README.md",
                                             "lib/dtune/cluster/README.md",
                                             "lib/dtune/gang/README.md",
                                             "lib/dtune/submit/README.md",
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

const std::string kRecipeDocument = "recipes/README.md";

bool is_key(const std::string& dotted) {
  const std::vector<std::string>& keys = recipe_keys();
  if (dotted.starts_with("model.layers.") || dotted.starts_with("space.")) {
    return true;
  }
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return key == dotted || key.starts_with(dotted + ".");
  });
}

}  // namespace dtune
