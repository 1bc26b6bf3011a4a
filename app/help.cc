#include "app/help.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "app/command.h"
#include <fmt/format.h>
#include <sys/wait.h>

namespace dtune {
namespace {

constexpr int kNotFound = 127;  // the shell's, of a command that is missing

// Ignores a signal while it lives.
class Ignored {
 public:
  explicit Ignored(int signal)
      : signal_(signal), old_(std::signal(signal, SIG_IGN)) {}
  ~Ignored() { std::signal(signal_, old_); }
  Ignored(const Ignored&) = delete;
  Ignored& operator=(const Ignored&) = delete;

 private:
  int signal_;
  void (*old_)(int);
};

// Returns whether the pager could be started.
bool page(const std::string& pager, const std::string& text) {
  FILE* pipe = ::popen(pager.c_str(), "w");
  if (pipe == nullptr) return false;
  // It may be left before it has read everything, and Ctrl-C is the pager's.
  const Ignored broken_pipe(SIGPIPE);
  const Ignored interrupt(SIGINT);
  std::fwrite(text.data(), 1, text.size(), pipe);
  const int status = ::pclose(pipe);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == kNotFound);
}

}  // namespace

std::string main_help() {
  std::string text =
      "Usage: dtune COMMAND [arguments]\n\n"
      "Tunes and trains CNNs (or any program) for the least compute.\n";
  std::string group;
  for (const Command& command : commands()) {
    if (command.group.empty()) continue;
    if (command.group != group) {
      group = command.group;
      text += fmt::format("\n{}:\n", group);
    }
    text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  }
  text += "\nTopics (dtune help TOPIC):\n";
  for (const HelpTopic& topic : help_topics()) {
    text += fmt::format("  {:<12}{}\n", topic.name, topic.summary);
  }
  return text +
         "\nOptions:\n"
         "  -h, --help  Show this; 'dtune COMMAND --help' shows more.\n"
         "  --version   Show the version; with --json also how it was built.\n"
         "\nExamples:\n"
         "  dtune init fashion-mnist\n"
         "  dtune run fashion-mnist.yaml\n"
         "  dtune best fashion-mnist.yaml --json\n";
}

void print_paged(const Console& console, const std::string& text) {
  const char* pager = std::getenv("PAGER");
  const std::string command =
      pager != nullptr && *pager != '\0' ? pager : "less -FRX";
  if (console.out_terminal && page(command, text)) return;
  console.print(text);
}

}  // namespace dtune
