#include "app/completion.h"

#include <algorithm>

#include <fmt/format.h>

namespace dtune {
namespace {

// A text inside single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\'' ? "'\\''" : std::string(1, c);
  return "'" + safe + "'";
}

// What each shell offers for a value; {0} are the words of Complete::words, {1}
// the same in quotes. bash: a call of a function of the script.
struct Offer {
  Complete complete;
  const char* bash;
  const char* zsh;
  const char* fish;
};

constexpr Offer kOffers[] = {
    {Complete::nothing, "COMPREPLY=()", " ", "-x"},
    {Complete::words, "COMPREPLY=($(compgen -W {1} -- \"$word\"))", "({0})",
     "-x -a {1}"},
    {Complete::file, "_dtune_files ''", "_files", "-r -F"},
    {Complete::folder, "COMPREPLY=($(compgen -d -- \"$word\"))", "_files -/",
     "-x -a '(__fish_complete_directories)'"},
    {Complete::recipe, "_dtune_files 'yaml|yml'", "_files -g \"*.(yaml|yml)\"",
     "-k -x -a '(__dtune_files yaml yml)'"},
    {Complete::study, "_dtune_files 'db|yaml|yml'",
     "_files -g \"*.(db|yaml|yml)\"", "-k -x -a '(__dtune_files db yaml yml)'"},
    {Complete::model, "_dtune_files 'safetensors|db|yaml|yml'",
     "_files -g \"*.(safetensors|db|yaml|yml)\"",
     "-k -x -a '(__dtune_files safetensors db yaml yml)'"},
};

std::string offer(const ArgumentInfo& info, const char* Offer::*shell) {
  const auto found =
      std::ranges::find(kOffers, info.complete, &Offer::complete);
  const std::string words = fmt::format("{}", fmt::join(info.words, " "));
  return fmt::format(fmt::runtime(found->*shell), words, quoted(words));
}

std::string bash_case(const DeclaredCommand& command) {
  std::string options = "--help";
  std::string values;
  std::string places;
  int place = 0;
  for (const ArgumentInfo& info : command.arguments) {
    if (info.positional) {
      places += fmt::format("        {}) {} ;;\n", place++,
                            offer(info, &Offer::bash));
      continue;
    }
    options += " " + info.name;
    if (!info.value.empty()) {
      values += fmt::format("        {}) {}; return ;;\n", info.name,
                            offer(info, &Offer::bash));
    }
  }
  std::string text =
      fmt::format("    {})\n      options='{}'\n", command.name, options);
  if (!values.empty()) {
    text += fmt::format("      case \"$before\" in\n{}      esac\n", values);
  }
  text +=
      "      if [[ $word == -* ]]; then\n"
      "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
      "        return\n"
      "      fi\n";
  if (!places.empty()) {
    text += fmt::format("      case \"$place\" in\n{}      esac\n", places);
  }
  return text + "      ;;\n";
}

// Options of all commands that take a value: they are not counted as
// positional arguments, nor is what follows them.
std::string options_with_value(const std::vector<DeclaredCommand>& commands) {
  std::vector<std::string> names;
  for (const DeclaredCommand& command : commands) {
    for (const ArgumentInfo& info : command.arguments) {
      if (info.positional || info.value.empty()) continue;
      if (std::find(names.begin(), names.end(), info.name) == names.end()) {
        names.push_back(info.name);
      }
    }
  }
  return fmt::format("{}", fmt::join(names, "|"));
}

// clang-format off
constexpr const char* kBashHead = R"sh(# bash completion for dtune
# eval "$(dtune completion bash)", or save it as
# ~/.local/share/bash-completion/completions/dtune

_dtune_files() {
  local path
  COMPREPLY=()
  compopt -o filenames 2> /dev/null
  while IFS= read -r path; do
    if [[ -d $path || -z $1 || $path =~ \.($1)$ ]]; then
      COMPREPLY+=("$path")
    fi
  done < <(compgen -f -- "$word")
}

_dtune() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local options place=0 i
)sh";
// clang-format on

// Brackets and colons mean something in a specification of _arguments.
std::string zsh_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe;
}

std::string zsh_spec(const ArgumentInfo& info) {
  if (info.positional) {
    return quoted(fmt::format("{}{}:{}", info.required ? ":" : "::",
                              zsh_text(info.name), offer(info, &Offer::zsh)));
  }
  const std::string spec =
      fmt::format("*{}[{}]", info.name, zsh_text(info.help));
  if (info.value.empty()) return quoted(spec);
  return quoted(fmt::format("{}:{}:{}", spec, zsh_text(info.value),
                            offer(info, &Offer::zsh)));
}

constexpr const char* kFishHead = R"sh(# fish completion for dtune
# save it as ~/.config/fish/completions/dtune.fish

function __dtune_files
  for ending in $argv
    __fish_complete_suffix .$ending
  end
end

complete -c dtune -f
complete -c dtune -n __fish_use_subcommand -l help -d 'Show help'
complete -c dtune -n __fish_use_subcommand -l version -d 'Show the version'
)sh";

}  // namespace

std::string bash_completion(const std::vector<DeclaredCommand>& commands) {
  std::vector<std::string> names;
  std::string cases;
  for (const DeclaredCommand& command : commands) {
    names.push_back(command.name);
    cases += bash_case(command);
  }
  return fmt::format(
      "{0}  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '{1} --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  for ((i = 2; i < COMP_CWORD; ++i)); do\n"
      "    case ${{COMP_WORDS[i]}} in\n"
      "      {2}) ((++i)) ;;\n"
      "      -*) ;;\n"
      "      *) ((++place)) ;;\n"
      "    esac\n"
      "  done\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "{3}  esac\n"
      "}}\n\n"
      "complete -F _dtune dtune\n",
      kBashHead, fmt::join(names, " "), options_with_value(commands), cases);
}

std::string zsh_completion(const std::vector<DeclaredCommand>& commands) {
  std::string list;
  std::string cases;
  for (const DeclaredCommand& command : commands) {
    list += fmt::format("    {}\n", quoted(zsh_text(command.name) + ":" +
                                           zsh_text(command.summary)));
    cases += fmt::format("    {})\n      _arguments '--help[Show help]'",
                         command.name);
    for (const ArgumentInfo& info : command.arguments) {
      cases += " \\\n        " + zsh_spec(info);
    }
    cases += "\n      ;;\n";
  }
  return fmt::format(
      "#compdef dtune\n"
      "# zsh completion for dtune: save it as _dtune in a folder of $fpath\n\n"
      "_dtune() {{\n"
      "  local -a commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=${{words[2]}}\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n{}  esac\n"
      "}}\n\n"
      "if [[ $funcstack[1] == _dtune ]]; then\n"
      "  _dtune \"$@\"\n"
      "else\n"
      "  compdef _dtune dtune\n"
      "fi\n",
      list, cases);
}

std::string fish_completion(const std::vector<DeclaredCommand>& commands) {
  std::string text = kFishHead;
  for (const DeclaredCommand& command : commands) {
    text +=
        fmt::format("complete -c dtune -n __fish_use_subcommand -a {} -d {}\n",
                    command.name, quoted(command.summary));
    const std::string here = fmt::format(
        "complete -c dtune -n '__fish_seen_subcommand_from {}'", command.name);
    text += here + " -l help -d 'Show help'\n";
    for (const ArgumentInfo& info : command.arguments) {
      if (info.positional) {
        text += fmt::format("{} {}\n", here, offer(info, &Offer::fish));
      } else {
        text += fmt::format(
            "{} -l {} -d {}{}\n", here, info.name.substr(2), quoted(info.help),
            info.value.empty() ? "" : " " + offer(info, &Offer::fish));
      }
    }
  }
  return text;
}

}  // namespace dtune
