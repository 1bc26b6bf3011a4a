// Why an agent is not there, from what the command that starts agents said.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "dtune/cluster/child_process.h"

namespace dtune {

struct LaunchFailure {
  std::string text;    // a sentence for the user; "": not worth one
  bool lasts = false;  // trying again is no use before the user acts
};

// What a program says where something is wrong, and what to do about it.
struct FailureWord {
  std::initializer_list<std::string_view> any;
  const char* remedy;
  bool lasts;
};

// The first of them that stands in the text; null: none.
const FailureWord* find_failure(std::span<const FailureWord> words,
                                std::string_view text);

// The last line that is not blank; `otherwise` where there is none.
std::string last_line_of(std::string_view text, const std::string& otherwise);

// A command of the engine `name` ended so; `word`: of what it said, may be null.
LaunchFailure explain_failure(const FailureWord* word, const std::string& name,
                              const ExitStatus& status,
                              const std::string& said);

}  // namespace dtune
