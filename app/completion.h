// Completion scripts, made from the declared arguments of all commands.
#pragma once

#include <string>
#include <vector>

#include "app/command.h"

namespace dtune {

std::string bash_completion(const std::vector<DeclaredCommand>& commands);
std::string zsh_completion(const std::vector<DeclaredCommand>& commands);
std::string fish_completion(const std::vector<DeclaredCommand>& commands);

}  // namespace dtune
