// SQLite with owners for its handles and dtune's errors; what the store needs
// of it and no more. A Database and its Statements belong to one thread at a
// time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "dtune/base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dtune {

// One column of a row. monostate is NULL.
using Cell = std::variant<std::monostate, int64_t, double, std::string>;

// An error of SQLite, with its (extended) result code.
class SqliteError : public Error {
 public:
  SqliteError(ErrorKind kind, const std::string& text, int code)
      : Error(kind, text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Error(store) of a damaged database: what SQLite found and how to salvage.
SqliteError damaged_database(const std::filesystem::path& path,
                             std::string_view found);

enum class DatabaseAccess {
  create,     // read and write, made where it is missing
  write,      // read and write
  read,       // never writes the file, sees what a live writer commits
  immutable,  // the file is not written meanwhile: no locks, no other files
};

class Database {
 public:
  // Waits up to `busy_ms` for locks of other programs. The file may come from
  // anywhere: what its schema says cannot run functions with side effects, and
  // damaged pages are found when they are read. Throws SqliteError.
  Database(const std::filesystem::path& path, DatabaseAccess access,
           int busy_ms = 5000);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements that give no rows.
  void execute(const std::string& sql);
  // First column of the first row; 0 or "" where there is none.
  int64_t query_number(const std::string& sql);
  std::string query_text(const std::string& sql);
  // False inside BEGIN ... COMMIT.
  bool autocommit() const;
  int64_t changes() const;  // rows changed by the last statement

  // Throws the SqliteError of a result code: which kind, and what to do.
  [[noreturn]] void fail(int code) const;

  sqlite3* handle() const { return handle_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  sqlite3* handle_ = nullptr;
};

// A prepared statement. Parameters count from 1, columns from 0.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int index, const Cell& cell);
  // True while there is a row; false resets it for the next use. After an
  // exception it is reset as well.
  bool step();
  // Binds nothing more, runs to the end.
  void run();
  void reset();

  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  bool null(int column) const;
  // The column's name, as the statement gives it.
  const char* name(int column) const;

 private:
  Database* database_;
  sqlite3_stmt* handle_ = nullptr;
};

}  // namespace dtune
