#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/suggest.h"
#include "dtune/config/check_context.h"
#include "dtune/config/parameter.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

// Of "{name}" and "--option={name}", the name: the program would get the braces
// in place of a value. Those of longer words may be an awk script's, JSON or a
// pattern of file names.
std::string whole_placeholder(const std::string& word) {
  const size_t equals = word.find('=');
  const std::string value =
      equals == std::string::npos ? word : word.substr(equals + 1);
  if (value.size() < 3 || !value.starts_with('{') || !value.ends_with('}')) {
    return "";
  }
  std::string name = value.substr(1, value.size() - 2);
  return is_parameter_name(name) ? name : "";
}

// "${lr}" would become "$0.1", of which a shell makes something else.
void check_dollars(const CheckContext& c, const std::string& word) {
  if (!c.is_fresh("command.run")) return;
  for (const Parameter& parameter : c.recipe.space.parameters()) {
    const std::string mark = "{" + parameter.name + "}";
    if (word.find("$" + mark) == std::string::npos) continue;
    c.complain("command.run",
               fmt::format("the command's ${0} is both a variable of a shell "
                           "and the value of {0} (write {0}, or ${1})",
                           mark, parameter_variable(parameter.name)));
  }
}

// "{lrr}" that is nearly a parameter is a slip, and so is any name that stands
// alone; other braces, and those after a '$', are the program's own business.
void check_placeholders(const CheckContext& c, const std::string& word) {
  std::vector<std::string> names;
  for (const Parameter& parameter : c.recipe.space.parameters()) {
    names.push_back(parameter.name);
  }
  const std::string whole =
      c.is_fresh("command.run") ? whole_placeholder(word) : "";
  size_t open = 0;
  while ((open = word.find('{', open)) != std::string::npos) {
    const size_t close = word.find('}', open);
    if (close == std::string::npos) return;
    const std::string name = word.substr(open + 1, close - open - 1);
    const std::string hint = did_you_mean(name, names);
    // Also one whose line in `space:` is wrong: that is said there.
    const bool known =
        std::find(names.begin(), names.end(), name) != names.end() ||
        find_path(c.tree, "space." + name) != nullptr;
    const bool variable = open > 0 && word[open - 1] == '$';
    if (!known && !variable && !hint.empty()) {
      c.complain(
          "command.run",
          fmt::format("the command's {{{}}} is not a parameter{}", name, hint));
    } else if (!known && !whole.empty() && name == whole) {
      c.complain(
          "command.run",
          fmt::format("the command's {{{0}}} is not a parameter (there "
                      "{1}; where the program is to get braces, write "
                      "{{ {0} }})",
                      name,
                      names.empty()
                          ? "is none"
                          : fmt::format("are: {}", fmt::join(names, ", "))));
    }
    open = close;
  }
}

// A word about a parameter that a point does not have is left out: of a
// shell's script, which is one word, nothing would remain.
void check_conditions(const CheckContext& c, const std::string& word) {
  if (word.find_first_of(" \t\n") == std::string::npos) return;
  if (!c.is_fresh("command.run")) return;
  for (const Parameter& parameter : c.recipe.space.parameters()) {
    const std::string mark = "{" + parameter.name + "}";
    if (parameter.when.empty() || word.find(mark) == std::string::npos) {
      continue;
    }
    const std::string variable = parameter_variable(parameter.name);
    c.complain("command.run",
               fmt::format("the command's {0} is a part of a longer word, all "
                           "of which is left out where '{1}' does not apply "
                           "(make {0} a word of its own, or use ${2})",
                           mark, parameter.name, variable));
  }
}

// The program would get the value of one of the two.
void check_variables(const CheckContext& c) {
  std::map<std::string, std::string> names;
  for (const Parameter& parameter : c.recipe.space.parameters()) {
    const std::string variable = parameter_variable(parameter.name);
    const auto [other, added] = names.emplace(variable, parameter.name);
    const std::string key = "space." + parameter.name;
    if (added || !c.is_fresh(key)) continue;
    c.complain(key, fmt::format("'{}' and '{}' are both the variable {} of the "
                                "program (rename one)",
                                other->second, parameter.name, variable));
  }
}

// The program prints it as NAME=NUMBER, a word that stands among others.
void check_printable(const CheckContext& c) {
  const std::string& metric = c.recipe.objective.metric;
  const bool word =
      metric != "step" && metric.find_first_of(" \t=") == std::string::npos;
  if (word || is_run_by_others(c.recipe)) return;
  if (!c.is_fresh("objective.metric")) return;
  c.complain("objective.metric",
             fmt::format("a program cannot report '{}' (name a metric without "
                         "blanks and '='; 'step' is the step's number)",
                         metric));
}

}  // namespace

void check_command(const CheckContext& c) {
  if (c.recipe.command->argv.empty() || c.recipe.command->argv[0].empty()) {
    c.complain("command",
               "'command' names no program (write command: python "
               "train.py --lr {lr})");
  }
  for (const char* section : {"data", "model", "train"}) {
    const YamlNode* found = c.tree.find(section);
    if (found == nullptr) continue;
    c.diagnostics.add(
        found->key_mark,
        fmt::format("'{}' cannot be used together with 'command' (the "
                    "program trains; remove one of the two)",
                    section));
  }
  for (const std::string& word : c.recipe.command->argv) {
    check_placeholders(c, word);
    check_dollars(c, word);
    check_conditions(c, word);
  }
  check_variables(c);
  check_printable(c);
}

}  // namespace dtune
