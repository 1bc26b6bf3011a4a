#include "dtune/store/open_database.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/vfs.h>

#include "dtune/store/schema.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kLargestChecked = uintmax_t{512} << 20;

uintmax_t size_of(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

void check_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw Error(ErrorKind::data,
                fmt::format("{}: is a folder (name the .db file in it)",
                            path.string()));
  }
  if (!fs::exists(path, error)) {
    throw Error(ErrorKind::data,
                fmt::format("{}: there is no such database (check the path; "
                            "'dtune run' makes it, 'dtune ls' lists studies)",
                            path.string()));
  }
}

void check_owner(Database& database) {
  if (owner_of(database) == DatabaseOwner::other_program) {
    throw Error(ErrorKind::store,
                fmt::format("{}: is a SQLite database of another program "
                            "(name the .db file of a study)",
                            database.path().string()));
  }
}

// The folder is on a disk of another machine.
bool is_on_network(const fs::path& path) {
  struct statfs info {};
  ::statfs(fs::absolute(path).parent_path().c_str(), &info);
  return is_network_file_system(static_cast<int64_t>(info.f_type));
}

// The lock lies beside the file itself, whichever name it was opened by: SQLite
// follows links, so that two writers would meet there. Of several hard links
// each would have a log of its own.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  if (error && fs::is_symlink(path)) {
    throw Error(ErrorKind::data,
                fmt::format("{}: is a link to a file that does not exist "
                            "(remove the link, or name the file)",
                            path.string()));
  }
  if (error) {  // about to be made
    return fs::canonical(fs::absolute(path).parent_path()) / path.filename();
  }
  if (fs::hard_link_count(real, error) > 1 && !error) {
    throw Error(ErrorKind::data,
                fmt::format("{}: has several names (hard links), each with a "
                            "log of its own, which damages databases (copy the "
                            "file, or use a symbolic link)",
                            path.string()));
  }
  return real;
}

// The lock of a node that died is kept by the disk's server for a lease, as a
// rule a minute and a half: it is waited out.
std::unique_ptr<FileLock> take_lock(const fs::path& path, bool network) {
  constexpr int kMostTries = 100;
  for (int tries = 1;; ++tries) {
    try {
      return std::make_unique<FileLock>(path);
    } catch (const Error& error) {
      const bool held = error.kind() == ErrorKind::temporary;
      if (!held || !network || tries == kMostTries) throw;
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

std::unique_ptr<FileLock> lock_for_writing(const fs::path& path, bool network) {
  try {
    return take_lock(path.string() + "-lock", network);
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{}: cannot be opened for writing: {}",
                            path.string(), error.what()));
  }
}

// A write-ahead log is shared through memory, which does not reach other
// machines. The rollback journal needs no more than locks on ranges of bytes,
// which network disks have: readers and the writer wait for each other.
void set_up_writer(Database& database, bool network) {
  const std::string wanted = network ? "truncate" : "wal";
  const std::string mode =
      database.query_text("PRAGMA journal_mode = " + wanted);
  if (mode != wanted) {
    throw Error(
        ErrorKind::store,
        fmt::format("{}: its file system cannot hold a {} (choose a local "
                    "disk with --db)",
                    database.path().string(),
                    network ? "database" : "write-ahead log"));
  }
  database.execute("PRAGMA synchronous = FULL");
  database.execute("PRAGMA foreign_keys = ON");
  database.execute("PRAGMA journal_size_limit = 16777216");
}

// A look that fails early where the file cannot be read this way.
void check_readable(Database& database) {
  check_owner(database);
  if (owner_of(database) == DatabaseOwner::none) {
    throw Error(ErrorKind::store,
                fmt::format("{}: is empty: no study was stored in it ('dtune "
                            "run' starts one)",
                            database.path().string()));
  }
}

// Readers must not change an older database: a copy of it is brought up to
// date instead.
void upgrade_copy(OpenDatabase& opened) {
  check_tables(*opened.connection, schema_migrations());
  if (!is_older(*opened.connection, schema_migrations())) {
    check_version(*opened.connection, schema_migrations());
    return;
  }
  auto folder = std::make_unique<TemporaryDirectory>();
  const fs::path copy = folder->path() / opened.connection->path().filename();
  std::string quoted = copy.string();
  for (size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos;) {
    quoted.insert(at, 1, '\'');
    at += 2;
  }
  opened.connection->execute(fmt::format("VACUUM INTO '{}'", quoted));
  {
    Database upgraded(copy, DatabaseAccess::write);
    migrate(upgraded, schema_migrations());
  }
  opened.connection = std::make_unique<Database>(copy, DatabaseAccess::read);
  opened.copy = std::move(folder);
}

// The file with a log of what is not merged yet, or is to be taken back.
fs::path copy_with(const std::string& log, const fs::path& path,
                   const fs::path& folder) {
  fs::path copy = folder / path.filename();
  try {
    fs::copy_file(path, copy);
    fs::copy_file(path.string() + log, copy.string() + log);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::store,
                fmt::format("{}: cannot be copied for reading: {} (make its "
                            "folder writable)",
                            path.string(), error.code().message()));
  }
  return copy;
}

// The folder cannot be written, so SQLite cannot make the files beside the
// database through which readers and a writer agree; nor then is there a
// writer. Or a writer on a network disk died within a transaction, which
// readers may not take back: that is done in a copy. Without unmerged writes
// the file can be read as it is.
OpenDatabase open_without_writing(const fs::path& named) {
  const fs::path path = fs::canonical(named);
  OpenDatabase opened;
  const bool rolls_back = size_of(path.string() + "-journal") > 0;
  if (!rolls_back && size_of(path.string() + "-wal") == 0) {
    opened.connection =
        std::make_unique<Database>(path, DatabaseAccess::immutable);
    return opened;
  }
  opened.copy = std::make_unique<TemporaryDirectory>();
  const fs::path copy =
      copy_with(rolls_back ? "-journal" : "-wal", path, opened.copy->path());
  if (rolls_back) {
    Database(copy, DatabaseAccess::write).query_number("PRAGMA schema_version");
  }
  opened.connection = std::make_unique<Database>(copy, DatabaseAccess::read);
  return opened;
}

}  // namespace

void check_database_folder(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(fs::absolute(path).parent_path(), error)) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: its folder does not exist (create it, or choose "
                          "another place with --db)",
                          path.string()));
}

bool is_network_file_system(int64_t magic) {
  constexpr std::array<int64_t, 8> kMagics = {
      0x6969,      // NFS
      0x517b,      // SMB
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB2
      0x0bd00bd0,  // Lustre
      0x47504653,  // GPFS
      0x00c36400,  // Ceph
      0x19830326,  // BeeGFS
  };
  return std::find(kMagics.begin(), kMagics.end(), magic & 0xffffffff) !=
         kMagics.end();
}

void check_sound(Database& database) {
  if (size_of(database.path()) > kLargestChecked) return;
  const std::string found = database.query_text("PRAGMA quick_check(1)");
  if (found == "ok") return;
  // "*** in database main ***", a line end, and what is wrong.
  throw damaged_database(database.path(), found.substr(found.rfind('\n') + 1));
}

OpenDatabase open_for_writing(const fs::path& named, StoreMode mode) {
  check_database_folder(named);
  if (mode == StoreMode::open || fs::is_directory(named)) check_file(named);
  const fs::path path = real_path(named);
  const bool network = is_on_network(path);
  OpenDatabase opened;
  opened.lock = lock_for_writing(path, network);
  opened.connection = std::make_unique<Database>(
      path,
      mode == StoreMode::open ? DatabaseAccess::write : DatabaseAccess::create);
  Database& database = *opened.connection;
  check_owner(database);
  check_sound(database);
  check_tables(database, schema_migrations());
  set_up_writer(database, network);
  migrate(database, schema_migrations());
  return opened;
}

OpenDatabase open_for_reading(const fs::path& path) {
  check_file(path);
  OpenDatabase opened;
  try {
    opened.connection = std::make_unique<Database>(path, DatabaseAccess::read);
    check_readable(*opened.connection);
  } catch (const SqliteError& error) {
    const int code = error.code() & 0xff;
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) throw;
    opened = open_without_writing(path);
    check_readable(*opened.connection);
  }
  upgrade_copy(opened);
  return opened;
}

}  // namespace dtune
