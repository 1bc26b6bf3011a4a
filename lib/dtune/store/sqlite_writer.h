// The writing connection: turns groups of records into transactions and keeps
// the derived columns of `trial` right. Belongs to the writer thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "dtune/store/sqlite_database.h"
#include "dtune/store/write_queue.h"

namespace dtune {

class SqliteWriter {
 public:
  // `database` must outlive this.
  explicit SqliteWriter(Database& database);

  // As WriteQueue::Commit.
  std::optional<Error> commit(const std::vector<WriteOp>& group);

 private:
  std::optional<Error> write_all(const std::vector<WriteOp>& group);
  void write(const WriteOp& op);
  void write_study(const WriteOp& op);
  void write_report(const WriteOp& op);
  void refresh_ends(int64_t trial);
  bool run(Statement& statement, const Row& row);

  Database& database_;
  Statement put_study_;
  Statement put_trial_;
  Statement put_report_;
  Statement put_event_;
  Statement put_decision_;
  Statement put_session_;
  Statement objective_;
  Statement last_step_;
  Statement extend_;
  Statement curve_;
  Statement set_ends_;
};

}  // namespace dtune
