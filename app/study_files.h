// Which files belong to a study: `x.yaml` is tuned into `x.db`, everything
// else lies in `x.files/`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace dtune {

struct StudyFiles {
  std::filesystem::path database;
  std::filesystem::path folder;  // "<database without .db>.files"

  std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
  // Where processes beside a running study ask to be let in (enrolment.h).
  std::filesystem::path enrolment() const { return folder / "door"; }
  // The machines that have joined (allowed_keys.h).
  std::filesystem::path allowed_keys() const { return folder / "allowed-keys"; }
  // By which agents of an engine's jobs come in (job_key.h).
  std::filesystem::path job_key() const { return folder / "job.key"; }
  std::filesystem::path model() const { return folder / "model.safetensors"; }
};

StudyFiles files_of(const std::filesystem::path& database);

// Where the study of a recipe is kept by default: beside the
// recipe if it is there already or can be made there, else (moved: true) in
// the current folder.
struct DefaultDatabase {
  std::filesystem::path path;
  bool moved = false;
};
DefaultDatabase default_database(const std::filesystem::path& recipe);

// The file starts as SQLite's files do.
bool is_database(const std::filesystem::path& path);

// Throws Error(config) where a file that is to be written would replace a
// database or a recipe: a mistyped name must not destroy a study.
void refuse_to_replace(const std::filesystem::path& output);

// The same of a database alone, where the user may overwrite a recipe.
void refuse_to_replace_database(const std::filesystem::path& output);

// Whether the user means stdout by the name of an output.
bool is_stdout(const std::filesystem::path& output);

// Writes a file that the user named, or to stdout. False: that was stdout, of
// which nothing is to be said. Throws as refuse_to_replace(), Error(config)
// where it is a folder, and Error(data) where it cannot be written.
bool write_output(const std::filesystem::path& output, std::string_view text);

// Throws as refuse_to_replace_database(), and Error(config) where the file is
// there and is not to be overwritten (`force`); `remedy`: what to do else.
void refuse_to_overwrite(const std::filesystem::path& file, bool force,
                         const std::string& remedy);

// The database that a user means by the name of a database, of a recipe, or of
// either without its ending. Throws Error(config) where there is none, and
// says how to make it.
std::filesystem::path find_database(const std::string& name);

// The recipe that a user means by the name of a recipe or of a database beside
// it. Throws Error(config) where there is none.
std::filesystem::path find_recipe(const std::string& name);

// Moves a database and all that belongs to it aside ("x.db.bak-1",
// "x.files.bak-1", the first number that is free); returns the new name of
// the database, or "" where there was nothing. Throws Error(temporary) where
// it is in use, Error(store) where a file cannot be moved.
std::filesystem::path move_aside(const std::filesystem::path& named);

// The path as people type it: relative to the current folder if below it.
std::string short_path(const std::filesystem::path& path);

}  // namespace dtune
