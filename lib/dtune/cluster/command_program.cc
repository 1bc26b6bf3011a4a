#include "dtune/cluster/command_program.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/study/command_words.h"
#include "dtune/study/recipe.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

bool is_in_search_path(const std::string& program, const fs::path& folder) {
  const char* path = std::getenv("PATH");
  std::istringstream entries(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string entry; std::getline(entries, entry, ':');) {
    if (is_program(folder / entry / program)) return true;
  }
  return false;
}

}  // namespace

std::string why_not_startable(const Recipe& recipe) {
  if (!recipe.command || is_run_by_others(recipe)) return "";
  const std::string& program = recipe.command->argv.at(0);
  if (program.find('{') != std::string::npos) return "";
  const fs::path folder = recipe.command->directory.empty()
                              ? recipe.directory
                              : recipe.command->directory;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return fmt::format("there is no folder {}", folder.string());
  }
  if (program.find('/') == std::string::npos) {
    return is_in_search_path(program, folder)
               ? ""
               : fmt::format("there is no program '{}' in PATH", program);
  }
  const fs::path path = (folder / program).lexically_normal();
  if (is_program(path)) return "";
  return fs::is_regular_file(path, error)
             ? fmt::format("{} is not executable (chmod +x)", path.string())
             : fmt::format("there is no program {}", path.string());
}

}  // namespace dtune
