// dtune help: the commands, one command, or a topic at length.

#include <algorithm>
#include <memory>

#include "app/command.h"
#include "app/help.h"
#include <fmt/format.h>

#include "dtune/base/suggest.h"

namespace dtune {
namespace {

// What may follow `dtune help`, topics first.
std::vector<std::string> subjects() {
  std::vector<std::string> names;
  for (const HelpTopic& topic : help_topics()) names.push_back(topic.name);
  for (const Command& command : commands()) {
    if (!command.group.empty()) names.push_back(command.name);
  }
  return names;
}

int help(const Console& console, const std::string& subject) {
  if (subject.empty()) {
    console.print(main_help());
    return kExitOk;
  }
  for (const HelpTopic& topic : help_topics()) {
    if (topic.name != subject) continue;
    print_paged(console, topic.text);
    return kExitOk;
  }
  const Command* command = find_command(subject);
  if (command == nullptr) {
    throw Error(ErrorKind::config,
                fmt::format("dtune help: there is no topic or command '{}'{} "
                            "(dtune help lists them)",
                            subject, did_you_mean(subject, subjects())));
  }
  Arguments arguments("dtune " + command->name, command->summary);
  command->declare(arguments);
  console.print(arguments.help());
  return kExitOk;
}

}  // namespace

Action declare_help(Arguments& arguments) {
  auto subject = std::make_shared<std::string>();
  arguments.describe(
      "Lists commands and topics, shows the help of a command, or prints a "
      "topic: the project's documents, built into the program. On a terminal "
      "a topic is shown by $PAGER, or less.");
  arguments.positional("SUBJECT", *subject, "A topic or a command.",
                       Complete::words, false, subjects());
  arguments.example("dtune help recipe", "every key of a recipe");
  arguments.example("dtune help recipe | grep -n momentum",
                    "where a word occurs");
  arguments.example("dtune help run", "as dtune run --help");
  return [subject](const Console& console) { return help(console, *subject); };
}

}  // namespace dtune
