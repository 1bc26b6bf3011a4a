// Opening a study's database: every check that stands between a path and a
// connection that may be used.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "dtune/base/file.h"
#include "dtune/store/sqlite_database.h"
#include "dtune/store/trial_store.h"

namespace dtune {

// A connection and what must live as long.
struct OpenDatabase {
  // Readers of a database with unmerged writes in a folder that cannot be
  // written, or with a transaction to be taken back, read a copy.
  std::unique_ptr<TemporaryDirectory> copy;
  std::unique_ptr<FileLock> lock;  // writers
  std::unique_ptr<Database> connection;
};

// Takes the single-writer lock (beside the file that symbolic links lead to),
// checks whose and how sound the file is, makes or migrates the tables. mode:
// create_or_open or open. Errors: as open_sqlite_store.
OpenDatabase open_for_writing(const std::filesystem::path& named,
                              StoreMode mode);

// Errors: as open_sqlite_store.
OpenDatabase open_for_reading(const std::filesystem::path& path);

// Throws damaged_database() where a page of the file does not fit the others.
// Reads every page, 2 ms for 10,000 reports; a file of more than 512 MiB, which
// takes about a second, is not checked.
void check_sound(Database& database);

// True for the magic numbers (statfs) of file systems on which a write-ahead
// log is unsafe: its shared memory does not reach other machines.
bool is_network_file_system(int64_t magic);

}  // namespace dtune
