// dtune completion: a script that teaches a shell dtune's commands.

#include <algorithm>
#include <memory>

#include "app/command.h"
#include "app/completion.h"
#include <fmt/format.h>

#include "dtune/base/suggest.h"

namespace dtune {
namespace {

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

int print_script(const Console& console, const std::string& shell) {
  if (shell == "bash") {
    console.print(bash_completion(declared_commands()));
  } else if (shell == "zsh") {
    console.print(zsh_completion(declared_commands()));
  } else if (shell == "fish") {
    console.print(fish_completion(declared_commands()));
  } else {
    throw Error(ErrorKind::config,
                fmt::format("dtune completion: there is no script for '{}'{} "
                            "(bash, zsh or fish)",
                            shell, did_you_mean(shell, kShells)));
  }
  return kExitOk;
}

}  // namespace

Action declare_completion(Arguments& arguments) {
  auto shell = std::make_shared<std::string>();
  arguments.describe(
      "Prints a script that completes dtune's commands, options and files.");
  arguments.positional("SHELL", *shell, "bash, zsh or fish.", Complete::words,
                       true, kShells);
  arguments.example("eval \"$(dtune completion bash)\"", "in ~/.bashrc");
  arguments.example(
      "dtune completion fish > "
      "~/.config/fish/completions/dtune.fish",
      "for fish");
  return
      [shell](const Console& console) { return print_script(console, *shell); };
}

}  // namespace dtune
