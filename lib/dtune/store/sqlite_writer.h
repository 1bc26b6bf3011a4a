// The writing connection: turns groups of records into transactions and keeps
// the derived columns of `trial` right. Belongs to the writer thread.
//
// The fence: each transaction first looks whether study.sessions is still what
// this writer has last written or found. Where it is not, another process has
// taken the study over, though the lock should have kept it out (a lock file
// that was deleted, a copy of a mount): the writer throws Error(study) then and
// ever after, so that nothing of it is committed or acknowledged any more.
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
  std::optional<Error> commit(std::vector<WriteOp>& group);

 private:
  std::optional<Error> write_all(std::vector<WriteOp>& group);
  void write(const WriteOp& op);
  void write_study(const WriteOp& op);
  void write_report(const WriteOp& op);
  void refresh_ends(int64_t trial);
  bool run(Statement& statement, const Row& row);
  int64_t stored_epoch();
  void check_fence();

  Database& database_;
  Statement put_study_;
  Statement put_trial_;
  Statement put_report_;
  Statement put_event_;
  Statement put_decision_;
  Statement put_session_;
  Statement put_rank_round_;
  Statement objective_;
  Statement last_step_;
  Statement extend_;
  Statement curve_;
  Statement set_ends_;
  Statement sessions_;
  int64_t epoch_ = 0;  // study.sessions, as it has to be; -1: no study yet
};

}  // namespace dtune
