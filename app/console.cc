#include "app/console.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "dtune/base/json.h"
#include "dtune/base/text.h"
#include "dtune/config/recipe_file.h"

namespace dtune {
namespace {

// "" where it is not set.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// https://no-color.org: set and not empty means no colour. Below it
// https://bixense.com/clicolors: CLICOLOR_FORCE means colour also where no
// terminal is, as in the log of a CI job.
bool color_wanted(bool terminal) {
  if (!variable("NO_COLOR").empty()) return false;
  const std::string forced = variable("CLICOLOR_FORCE");
  if (!forced.empty() && forced != "0") return true;
  return terminal && variable("TERM") != "dumb";
}

void to_stderr(const std::string& text) {
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

nlohmann::json error_object(const Error& error) {
  nlohmann::json object = {{"kind", to_string(error.kind())},
                           {"message", error.what()},
                           {"exit_code", exit_code(error.kind())}};
  if (const auto* recipe = dynamic_cast<const RecipeError*>(&error)) {
    for (const Diagnostic& diagnostic : recipe->diagnostics()) {
      object["problems"].push_back({{"where", diagnostic.where},
                                    {"message", diagnostic.message},
                                    {"excerpt", diagnostic.excerpt}});
    }
  }
  return {{"error", object}};
}

}  // namespace

Console Console::standard(bool json) {
  Console console;
  console.json = json;
  console.out_terminal = ::isatty(STDOUT_FILENO) == 1;
  console.err_terminal = ::isatty(STDERR_FILENO) == 1;
  console.out_color = color_wanted(console.out_terminal);
  console.err_color = color_wanted(console.err_terminal);
  return console;
}

void Console::print(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void Console::line(std::string_view text) const {
  print(text);
  print("\n");
}

void Console::notice(std::string_view text) const {
  if (!quiet) to_stderr(fmt::format("{}\n", text));
}

void Console::warning(std::string_view text) const {
  to_stderr(err_color ? fmt::format("\x1b[33mwarning:\x1b[0m {}\n", text)
                      : fmt::format("warning: {}\n", text));
}

void Console::error(const Error& error) const {
  const std::string text = printable_lines(error.what());
  to_stderr(err_color ? fmt::format("\x1b[1;31merror:\x1b[0m {}\n", text)
                      : fmt::format("error: {}\n", text));
  if (json) line(json_text(error_object(error), 2));
}

bool can_redraw(const Console& console) {
  return console.out_terminal && variable("TERM") != "dumb";
}

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
      size.ws_row > 0) {
    return {size.ws_col, size.ws_row};
  }
  return {};
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string text = lower_case(value);
    return text.find("utf-8") != std::string::npos ||
           text.find("utf8") != std::string::npos;
  }
  return false;
}

TextStyle style_of(const Console& console) {
  return {.color = console.out_color,
          .unicode = locale_is_utf8(),
          .columns = console.out_terminal ? terminal_size().columns : 100};
}

}  // namespace dtune
