// Completion scripts, made from the declared arguments of all commands.
#pragma once

#include <string>
#include <vector>

#include "app/arguments.h"

namespace dtune {

// A command as its shell sees it.
struct CompletedCommand {
  std::string name;
  std::string summary;
  std::vector<ArgumentInfo> arguments;
};

std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);

}  // namespace dtune
