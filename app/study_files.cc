#include "app/study_files.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/config/recipe_file.h"
#include "dtune/report/text.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "SQLite format 3";  // then a 0 byte

fs::path with_extension(fs::path path, const char* extension) {
  return path.replace_extension(extension);
}

bool is_recipe_name(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml";
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool folder_is_writable(const fs::path& folder) {
  return ::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
}

[[noreturn]] void fail_study(const std::string& text) {
  throw Error(ErrorKind::config, text);
}

void refuse_folder(const std::string& name) {
  std::error_code error;
  if (!fs::is_directory(name, error)) return;
  fail_study(fmt::format("{}: is a folder ({} lists the studies in it)", name,
                         quoted_command("dtune ls " + shell_quoted(name))));
}

// The command that begins the study of a recipe.
std::string starter_of(const std::string& recipe) {
  try {
    return is_run_by_others(RecipeFile::load(recipe).recipe()) ? "ask" : "run";
  } catch (const Error&) {  // which says what is wrong with it
    return "run";
  }
}

// What SQLite and the store keep beside a database.
constexpr std::array kBeside = {"-wal", "-journal", "-shm", "-lock"};

fs::path free_name(const fs::path& database, const fs::path& folder,
                   std::string& suffix) {
  for (int n = 1;; ++n) {
    suffix = fmt::format(".bak-{}", n);
    fs::path name = database.string() + suffix;
    if (!fs::exists(name) && !fs::exists(folder.string() + suffix)) {
      return name;
    }
  }
}

void move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::exists(from, error)) return;
  fs::rename(from, to, error);
  if (error) {
    throw Error(ErrorKind::store,
                fmt::format("{}: cannot be moved to {}: {} (check the "
                            "folder's permissions, or choose another --db)",
                            from.string(), to.string(), error.message()));
  }
}

}  // namespace

StudyFiles files_of(const fs::path& database) {
  std::error_code error;
  fs::path real = database;
  // One study, one folder, whichever link leads to it.
  if (fs::is_symlink(database)) real = fs::canonical(database, error);
  if (error) real = database;
  fs::path stem = real;
  if (stem.extension() == ".db") stem.replace_extension();
  return {real, stem.string() + ".files"};
}

DefaultDatabase default_database(const fs::path& recipe) {
  const fs::path beside = with_extension(recipe, ".db");
  const bool may_write =
      folder_is_writable(beside.parent_path()) &&
      (!is_file(beside) || ::access(beside.c_str(), W_OK) == 0);
  if (may_write) return {beside, false};
  return {beside.filename(), true};
}

bool is_database(const fs::path& path) {
  std::array<char, kMagic.size() + 1> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  // The format's magic ends with a zero.
  return file && std::string_view(head.data(), kMagic.size()) == kMagic &&
         head.back() == '\0';
}

void refuse_to_replace_database(const fs::path& output) {
  if (!is_file(output) || !is_database(output)) return;
  fail_study(
      fmt::format("{}: is a database, which is not replaced (name another "
                  "file)",
                  output.string()));
}

void refuse_to_replace(const fs::path& output) {
  refuse_to_replace_database(output);
  if (!is_file(output) || !is_recipe_name(output)) return;
  fail_study(
      fmt::format("{}: is a recipe, which is not replaced (name another file)",
                  output.string()));
}

void refuse_to_overwrite(const fs::path& file, bool force,
                         const std::string& remedy) {
  refuse_to_replace_database(file);
  if (force || !fs::exists(file)) return;
  throw Error(ErrorKind::config,
              fmt::format("{}: exists already (--force overwrites it, or {})",
                          file.string(), remedy));
}

bool is_stdout(const fs::path& output) { return output == "-"; }

bool write_output(const fs::path& output, std::string_view text) {
  if (is_stdout(output)) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return false;
  }
  refuse_to_replace(output);
  if (std::error_code error; fs::is_directory(output, error)) {
    fail_study(
        fmt::format("{}: is a folder (name a file in it)", output.string()));
  }
  write_file_atomic(output, text, /*durable=*/false);
  return true;
}

fs::path find_database(const std::string& name) {
  refuse_folder(name);
  fs::path path = name;
  if (is_file(path) && !is_recipe_name(path)) return path;
  if (!is_recipe_name(path) && is_file(name + ".db")) return name + ".db";
  const fs::path beside = with_extension(path, ".db");
  for (const fs::path& candidate : {beside, beside.filename()}) {
    if (is_recipe_name(path) && is_file(candidate)) return candidate;
  }
  for (const char* ending : {"", ".yaml", ".yml"}) {
    const std::string recipe = name + ending;
    if (!is_recipe_name(recipe) || !is_file(recipe)) continue;
    fail_study(
        fmt::format("{}: has not been run yet: there is no {} (start with "
                    "{}, or name the database)",
                    recipe, with_extension(recipe, ".db").string(),
                    quoted_command("dtune " + starter_of(recipe) + " " +
                                   shell_quoted(recipe))));
  }
  fail_study(fmt::format(
      "{}: there is no such file (name a study's .db, its recipe "
      "or, with status, what dtune submit printed; 'dtune ls' lists "
      "the studies below this folder)",
      name));
}

fs::path find_recipe(const std::string& name) {
  refuse_folder(name);
  fs::path path = name;
  const bool database = is_file(path) && is_database(path);
  if (is_file(path) && !database) return path;
  for (const char* ending : {".yaml", ".yml"}) {
    fs::path beside = database || path.extension() == ".db"
                          ? with_extension(path, ending)
                          : fs::path(name + ending);
    if (is_file(beside)) return beside;
  }
  if (database) {
    fail_study(fmt::format(
        "{}: is a study's database, and no recipe lies beside it "
        "({} continues the study)",
        name, quoted_command("dtune resume " + shell_quoted(name))));
  }
  fail_study(
      fmt::format("{}: there is no such recipe (check the path; 'dtune init' "
                  "writes one)",
                  name));
}

fs::path move_aside(const fs::path& named) {
  const StudyFiles files = files_of(named);
  const fs::path& database = files.database;
  if (!fs::exists(database) && !fs::exists(files.folder)) return {};
  const FileLock lock(database.string() + "-lock");  // not in use
  std::string suffix;
  fs::path moved = free_name(database, files.folder, suffix);
  move_file(files.folder, files.folder.string() + suffix);
  for (const char* ending : kBeside) {
    // The log belongs to the database: SQLite looks for "<name>-wal".
    move_file(database.string() + ending, moved.string() + ending);
  }
  move_file(database, moved);
  return moved;
}

std::string short_path(const fs::path& path) {
  std::error_code error;
  const fs::path relative = fs::relative(path, error);
  if (error || relative.empty() || *relative.begin() == "..") {
    return path.string();
  }
  return relative.string();
}

}  // namespace dtune
