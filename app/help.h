// `dtune help`: the list of commands and topics, and the texts of the topics.
#pragma once

#include <string>
#include <vector>

#include "app/console.h"

namespace dtune {

// A README of the project, built in (app/CMakeLists.txt has the table).
struct HelpTopic {
  std::string name;     // "recipe"
  std::string summary;  // for the list
  std::string text;     // Markdown
};

const std::vector<HelpTopic>& help_topics();

// What `dtune --help` prints.
std::string main_help();

// Prints a long text; on a terminal through $PAGER, else less. Where neither
// can be started, it is printed as it is.
void print_paged(const Console& console, const std::string& text);

}  // namespace dtune
