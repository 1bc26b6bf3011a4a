#include "app/submitted.h"

#include <cerrno>
#include <filesystem>

#include "app/study_files.h"
#include <fmt/format.h>
#include <unistd.h>

namespace dtune {

Submission need_submission(const std::string& name) {
  if (auto found = find_submission(name)) return *found;
  std::error_code error;
  for (const char* ending : {"", ".db", ".yaml", ".yml"}) {
    const std::filesystem::path file = name + ending;
    if (!std::filesystem::exists(file, error)) continue;
    std::filesystem::path database = file;
    if (auto found =
            submission_of(files_of(database.replace_extension(".db")).folder)) {
      return *found;
    }
  }
  throw Error(ErrorKind::config,
              fmt::format("{}: no study was submitted under that name (dtune "
                          "submit prints it)",
                          name));
}

std::optional<int> show_submitted(const Console& console, std::string& name) {
  std::error_code error;
  if (std::filesystem::exists(name, error)) return {};
  const auto submission = find_submission(name);
  if (!submission) return {};
  const EngineState state = engine_state(*submission);
  console.notice(fmt::format("{}: {}", submission->to, state.text));
  if (std::filesystem::exists(submission->database, error)) {
    name = submission->database;
    return {};
  }
  auto command = status_command(*submission);
  if (command.empty() || !state.alive) return kExitOk;
  if (console.json) command.push_back("--json");
  become(command);
}

void become(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));  // NOLINT: of C's exec
  }
  words.push_back(nullptr);
  std::fflush(stdout);
  ::execvp(words[0], words.data());
  throw Error(ErrorKind::config,
              fmt::format("{}: {}", argv[0], errno_text(errno)));
}

}  // namespace dtune
