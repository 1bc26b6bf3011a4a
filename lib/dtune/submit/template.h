// Texts with places for values: the scripts, manifests and requests that
// engines are handed. Pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dtune {

// How a value is written so that it stays one value: a word of a POSIX shell,
// or a string of JSON (which YAML reads, too). In a comment line (one that
// begins with '#') it stands as it is.
enum class TemplateLanguage { shell, json };

struct Template {
  std::string name;  // for messages: "slurm.sh", or the user's file
  std::string text;
  TemplateLanguage language = TemplateLanguage::shell;
};

struct TemplateValues {
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<std::string>> lists;
  std::vector<std::string> raw;  // lines of the user, as they are

  bool has(const std::string& name) const;  // and it is not empty
};

//   {{name}}    a text, quoted where it has to be
//   {{name!}}   a text as it is: numbers, parts of a longer text
//   {{name*}}   a list: words of a shell, or a list of JSON
//   {{raw}}     on a line of its own: the user's lines, indented as it is
//   {{if name}} ... {{end}}, on lines of their own: left out without a value
//
// Throws Error(config) with the place in the template and "did you mean" for a
// name that has no value, and where `if` and `end` do not match. REQUIRES: no
// text holds a line feed, except by {{name!}} where that is meant.
std::string render_template(const Template& source,
                            const TemplateValues& values);

}  // namespace dtune
