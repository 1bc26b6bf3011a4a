#include "dtune/study/command_words.h"

#include <cctype>
#include <optional>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/study/recipe.h"

namespace dtune {
namespace {

// Puts values for "{name}". Empty: the word is about a parameter that this
// point does not have.
std::optional<std::string> with_values(std::string word,
                                       const SearchSpace& space,
                                       const Point& point) {
  for (const Parameter& parameter : space.parameters()) {
    const std::string mark = "{" + parameter.name + "}";
    const auto value = point.find(parameter.name);
    for (size_t at = word.find(mark); at != std::string::npos;
         at = word.find(mark, at)) {
      if (value == point.end()) return std::nullopt;
      const std::string text = to_string(value->second);
      word.replace(at, mark.size(), text);
      at += text.size();
    }
  }
  return word;
}

bool is_placeholder(const std::string& word) {
  return word.size() > 2 && word.front() == '{' &&
         word.find('}') == word.size() - 1;
}

// "--depth", "-d"; not "-1", "--" or "--depth=3".
bool is_option(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word.find('=') != std::string::npos) return false;
  if (word[1] == '-') return word.size() > 2;
  return std::isalpha(static_cast<unsigned char>(word[1])) != 0;
}

}  // namespace

bool is_run_by_others(const Recipe& recipe) {
  return recipe.command && recipe.command->argv.size() == 1 &&
         recipe.command->argv[0] == "none";
}

std::vector<std::string> command_words(const Recipe& recipe,
                                       const Point& point) {
  DTUNE_CHECK(recipe.command.has_value());
  std::vector<std::string> words;
  bool option = false;  // the last of `words` may belong to what follows
  for (const std::string& word : recipe.command->argv) {
    auto text = with_values(word, recipe.space, point);
    if (text) {
      option = !words.empty() && is_option(word);
      words.push_back(std::move(*text));
    } else {
      if (option && is_placeholder(word)) words.pop_back();
      option = false;
    }
  }
  return words;
}

std::string parameter_variable(const std::string& name) {
  std::string variable = "DTUNE_PARAM_" + name;
  for (char& c : variable) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return variable;
}

std::map<std::string, std::string> point_environment(const Point& point) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : point) {
    variables[parameter_variable(name)] = to_string(value);
  }
  return variables;
}

}  // namespace dtune
