// dtune: the command line. Errors are caught here, once.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "app/command.h"
#include "app/help.h"
#include "app/study_list.h"
#include "app/version.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/cluster/log.h"
#include "dtune/config/reader.h"
#include "dtune/config/schema.h"

namespace dtune {
namespace {

// What other programs call a command.
constexpr std::pair<std::string_view, const char*> kOtherNames[] = {
    {"train", "run"},       {"tune", "run"},    {"optimize", "run"},
    {"start", "run"},       {"list", "ls"},     {"compare", "report"},
    {"continue", "resume"}, {"-V", "--version"}};

std::string meant_command(const std::string& word,
                          const std::vector<std::string>& names) {
  const auto* other = std::ranges::find(
      kOtherNames, word, &std::pair<std::string_view, const char*>::first);
  return other == std::end(kOtherNames)
             ? did_you_mean(word, names)
             : fmt::format(", did you mean '{}'?", other->second);
}

[[noreturn]] void unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (!command.group.empty()) names.push_back(command.name);
  }
  throw Error(ErrorKind::config,
              fmt::format("unknown {} '{}'{} (see dtune --help)",
                          word.starts_with('-') ? "option" : "command", word,
                          meant_command(word, names)));
}

// "; it is an option of dtune run, resume"; "" where no command has it.
std::string commands_with(const std::string& option) {
  std::vector<std::string> having;
  for (const DeclaredCommand& command : declared_commands()) {
    if (std::ranges::find(command.arguments, option, &ArgumentInfo::name) !=
        command.arguments.end()) {
      having.push_back(command.name);
    }
  }
  if (having.empty()) return "";
  return fmt::format("; it is an option of dtune {}", fmt::join(having, ", "));
}

// The key of recipes that "--epochs" is called by, of several that of `train`;
// "" where that is not clear.
std::string key_of_option(const std::string& option) {
  std::string name = option.substr(option.find_first_not_of('-'));
  std::replace(name.begin(), name.end(), '-', '_');
  if (const std::string key = key_elsewhere(name); !key.empty()) return key;
  std::vector<std::string> found;
  for (const std::string& key : recipe_keys()) {
    if (key == "train." + name) return key;
    if (key == name || key.ends_with("." + name)) found.push_back(key);
  }
  return found.size() == 1 ? found[0] : "";
}

// Of an option that the command does not have: what to write in its place.
std::string hint_unknown(const Arguments& arguments,
                         const std::string& option) {
  if (!arguments.has("--set")) return commands_with(option);
  const std::string key = key_of_option(option);
  if (!key.empty()) return fmt::format("; write --set {}=VALUE", key);
  return commands_with(option) + "; --set KEY=VALUE sets any key of the recipe";
}

int run_command(const Command& command, const Console& console,
                std::span<const std::string> words) {
  Arguments arguments("dtune " + command.name, command.summary);
  const Action action = command.declare(arguments);
  arguments.hint_unknown([&arguments](const std::string& option) {
    return hint_unknown(arguments, option);
  });
  if (!arguments.parse(words)) {
    console.print(arguments.help());
    return kExitOk;
  }
  return action(console);
}

// What a folder of studies holds, and what to do next with the latest; false
// where there are none.
bool show_studies_here(const Console& console) {
  std::vector<StudyListing> studies;
  for (const auto& database : databases_below(".")) {
    studies.push_back(listing_for(database));
  }
  const auto latest =
      std::max_element(studies.begin(), studies.end(),
                       [](const StudyListing& a, const StudyListing& b) {
                         return a.row.created_ms < b.row.created_ms;
                       });
  if (latest == studies.end() || !latest->problem.empty()) return false;
  console.print(ls_text(studies, style_of(console)));
  const bool running = latest->held;
  const bool ended = latest->row.state == StudyState::finished ||
                     latest->row.state == StudyState::failed;
  console.print(fmt::format("\nnext     dtune {} {}\nhelp     dtune --help\n",
                            running ? "status"
                            : ended ? "report"
                                    : "resume",
                            shell_quoted(latest->database)));
  return true;
}

int dispatch(const Console& console, const std::vector<std::string>& words) {
  if (words.empty()) {
    if (show_studies_here(console)) return kExitOk;
    console.print(main_help());
    return kExitConfig;
  }
  const std::string& first = words[0];
  if (first == "--help" || first == "-h") {
    console.print(main_help());
    return kExitOk;
  }
  if (first == "--version" || first == "version") {
    console.line(console.json ? version_json() : "dtune " DTUNE_VERSION);
    return kExitOk;
  }
  const Command* command = find_command(first);
  // SageMaker gives its 'train' no words.
  const bool not_meant =
      first == "train" && words.size() > 1 && !words[1].starts_with('-');
  if (command == nullptr || not_meant) unknown_command(first);
  return run_command(*command, console, std::span(words).subspan(1));
}

int run_main(const Console& console, const std::vector<std::string>& words) {
  try {
    return dispatch(console, words);
  } catch (const Error& error) {
    console.error(error);
    return exit_code(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    const bool full = error.code() == std::errc::no_space_on_device;
    const ErrorKind kind = full ? ErrorKind::temporary : ErrorKind::data;
    console.error(Error(
        kind, fmt::format("{}: {} (check the path, and whether its disk "
                          "can be written and has room)",
                          error.path1().string(), error.code().message())));
    return exit_code(kind);
  } catch (const std::bad_alloc&) {
    console.error(Error(ErrorKind::temporary,
                        "out of memory (close other programs, or use fewer "
                        "slots: --slots 1)"));
    return kExitTemporary;
  } catch (const std::exception& error) {
    console.error(Error(ErrorKind::internal,
                        fmt::format("{} (a bug in dtune: please report it with "
                                    "the command that you ran)",
                                    error.what())));
    return kExitStudyFailed;
  }
}

// Each slot, node and unknown connection takes descriptors. Programs that are
// tuned get the same.
void raise_descriptor_limit() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur >= std::min(kEnough, limit.rlim_max)) return;
  limit.rlim_cur = std::min(kEnough, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Output that could not be written is an error, not silence.
int finish(const Console& console, int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  ::poll(&reader, 1, 0);
  if ((reader.revents & POLLERR) != 0) return code;  // it saw enough: `| head`
  Console quiet = console;
  quiet.json = false;
  quiet.error(Error(ErrorKind::temporary,
                    "stdout: cannot be written (is its disk full?)"));
  return code == kExitOk ? kExitTemporary : code;
}

}  // namespace
}  // namespace dtune

int main(int argc, char** argv) {
  dtune::raise_descriptor_limit();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool json =
      std::find(words.begin(), words.end(), "--json") != words.end();
  const dtune::Console console = dtune::Console::standard(json);
  // Standard output is for results.
  dtune::log_to_standard_error("dtune");
  return dtune::finish(console, dtune::run_main(console, words));
}
