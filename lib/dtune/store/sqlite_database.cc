#include "dtune/store/sqlite_database.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "dtune/base/file.h"

namespace dtune {
namespace {

// SQLite reports a full disk as an I/O error where it grows its shared memory.
bool out_of_space(sqlite3* handle, int code,
                  const std::filesystem::path& path) {
  const int primary = code & 0xff;
  if (primary == SQLITE_FULL) return true;
  if (primary != SQLITE_IOERR && primary != SQLITE_CANTOPEN) return false;
  const int system = handle != nullptr ? sqlite3_system_errno(handle) : 0;
  constexpr uint64_t kAlmostNothing = 64 * 1024;
  return system == ENOSPC || system == EDQUOT ||
         free_bytes(path) < kAlmostNothing;
}

struct Meaning {
  ErrorKind kind;
  std::string text;
};

Meaning meaning_of(int code, const char* sqlite_says) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorKind::temporary,
              "is locked by another program (wait until it is done)"};
    case SQLITE_NOMEM:
      return {ErrorKind::temporary,
              "no memory left (close other programs and try again)"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return {ErrorKind::store,
              "cannot be written (check the permissions of the file and of its "
              "folder)"};
    case SQLITE_CANTOPEN:
      return {ErrorKind::store,
              "cannot be opened (check that its folder exists and its "
              "permissions)"};
    case SQLITE_NOTADB:
      return {ErrorKind::store,
              "is not a database of dtune (name the .db file of a study)"};
    case SQLITE_IOERR:
      return {ErrorKind::store,
              fmt::format("the disk reports an error: {} (check the disk; what "
                          "was stored before is safe)",
                          sqlite_says)};
    default:
      return {ErrorKind::internal,
              fmt::format("SQLite says '{}' (a bug in dtune: please report it "
                          "with the command that you ran)",
                          sqlite_says)};
  }
}

// "file:..." with the characters that a URI gives a meaning escaped.
std::string immutable_uri(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

int flags_of(DatabaseAccess access) {
  switch (access) {
    case DatabaseAccess::create:
      return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    case DatabaseAccess::write:
      return SQLITE_OPEN_READWRITE;
    case DatabaseAccess::read:
      return SQLITE_OPEN_READONLY;
    case DatabaseAccess::immutable:
      return SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  }
  return SQLITE_OPEN_READONLY;
}

}  // namespace

SqliteError damaged_database(const std::filesystem::path& path,
                             std::string_view found) {
  const std::string name = path.string();
  return {ErrorKind::store,
          fmt::format("{}: the database is damaged: {} (save what is left: "
                      "sqlite3 '{}' .recover | sqlite3 '{}.saved')",
                      name, found, name, name),
          SQLITE_CORRUPT};
}

Database::Database(const std::filesystem::path& path, DatabaseAccess access,
                   int busy_ms)
    : path_(path) {
  const std::string name =
      access == DatabaseAccess::immutable ? immutable_uri(path) : path.string();
  const int code = sqlite3_open_v2(
      name.c_str(), &handle_, flags_of(access) | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    try {
      fail(code);
    } catch (...) {
      sqlite3_close_v2(handle_);
      throw;
    }
  }
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, busy_ms);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // 32 MiB: a large study's reports without reading pages again and again.
  sqlite3_exec(handle_,
               "PRAGMA cell_size_check = ON; PRAGMA cache_size = -32768",
               nullptr, nullptr, nullptr);
}

Database::~Database() { sqlite3_close_v2(handle_); }

void Database::fail(int code) const {
  const char* says =
      handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  if (out_of_space(handle_, code, path_)) {
    throw SqliteError(
        ErrorKind::temporary,
        fmt::format("{}: no space left on the disk (free some and go on: what "
                    "was stored before is safe)",
                    path_.string()),
        SQLITE_FULL);
  }
  if ((code & 0xff) == SQLITE_CORRUPT) throw damaged_database(path_, says);
  const Meaning meaning = meaning_of(code, says);
  throw SqliteError(meaning.kind,
                    fmt::format("{}: {}", path_.string(), meaning.text), code);
}

void Database::execute(const std::string& sql) {
  const int code =
      sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

namespace {

// What a statement writes is committed, or refused, at its end: a PRAGMA that
// changes the journal's mode gives its row before.
template <typename Value>
Value first_value(Statement& statement, Value (Statement::*column)(int) const) {
  if (!statement.step()) return {};
  Value value = (statement.*column)(0);
  statement.run();
  return value;
}

}  // namespace

int64_t Database::query_number(const std::string& sql) {
  Statement statement(*this, sql);
  return first_value(statement, &Statement::integer);
}

std::string Database::query_text(const std::string& sql) {
  Statement statement(*this, sql);
  return first_value(statement, &Statement::text);
}

bool Database::autocommit() const {
  return sqlite3_get_autocommit(handle_) != 0;
}

int64_t Database::changes() const { return sqlite3_changes64(handle_); }

Statement::Statement(Database& database, std::string_view sql)
    : database_(&database) {
  const int code = sqlite3_prepare_v3(
      database.handle(), sql.data(), static_cast<int>(sql.size()),
      SQLITE_PREPARE_PERSISTENT, &handle_, nullptr);
  if (code != SQLITE_OK) database.fail(code);
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      handle_(std::exchange(other.handle_, nullptr)) {}

void Statement::bind(int index, const Cell& cell) {
  int code = SQLITE_OK;
  if (const auto* integer = std::get_if<int64_t>(&cell)) {
    code = sqlite3_bind_int64(handle_, index, *integer);
  } else if (const auto* real = std::get_if<double>(&cell)) {
    code = sqlite3_bind_double(handle_, index, *real);
  } else if (const auto* text = std::get_if<std::string>(&cell)) {
    code = sqlite3_bind_text64(handle_, index, text->data(), text->size(),
                               SQLITE_TRANSIENT, SQLITE_UTF8);
  } else {
    code = sqlite3_bind_null(handle_, index);
  }
  if (code != SQLITE_OK) database_->fail(code);
}

bool Statement::step() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  try {
    database_->fail(code);  // before the reset, which changes the text
  } catch (...) {
    reset();
    throw;
  }
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() { sqlite3_reset(handle_); }

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(handle_, column);
}

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_text(handle_, column);
  const int size = sqlite3_column_bytes(handle_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes),
                                        static_cast<size_t>(size));
}

bool Statement::null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

const char* Statement::name(int column) const {
  return sqlite3_column_name(handle_, column);
}

}  // namespace dtune
