#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/config/check_context.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

// "{lrr}" that is nearly a parameter is a slip; other braces are the
// program's own business.
void check_placeholders(const CheckContext& c, const std::string& word) {
  std::vector<std::string> names;
  for (const Parameter& parameter : c.recipe.space.parameters()) {
    names.push_back(parameter.name);
  }
  size_t open = 0;
  while ((open = word.find('{', open)) != std::string::npos) {
    const size_t close = word.find('}', open);
    if (close == std::string::npos) return;
    const std::string name = word.substr(open + 1, close - open - 1);
    const std::string hint = did_you_mean(name, names);
    const bool known =
        std::find(names.begin(), names.end(), name) != names.end();
    if (!known && !hint.empty()) {
      c.complain(
          "command.run",
          fmt::format("the command's {{{}}} is not a parameter{}", name, hint));
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
    std::string variable =
        point_environment({{parameter.name, 0.0}}).begin()->first;
    c.complain("command.run",
               fmt::format("the command's {0} is a part of a longer word, all "
                           "of which is left out where '{1}' does not apply "
                           "(make {0} a word of its own, or use ${2})",
                           mark, parameter.name, variable));
  }
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
    check_conditions(c, word);
  }
}

}  // namespace dtune
