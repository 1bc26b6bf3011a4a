// A queue of records and the one thread that writes them in groups: whatever
// has gathered while one group was being synced to the disk is the next group,
// so a slow disk costs latency, never throughput.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/store/rows.h"

namespace dtune {

// none: no record, but a place among them.
enum class Table {
  study,
  trial,
  report,
  event,
  decision,
  session,
  rank_round,
  none,
};

// One record on its way to the database.
struct WriteOp {
  Table table = Table::study;
  Row row;
  std::optional<double> objective;  // report: larger is better
  std::function<void()> on_commit;  // may be empty; not called where refused
  bool with_next = false;           // set by the queue: one transaction
  bool refused = false;             // set by a commit: left out for good
};

class WriteQueue {
 public:
  // Writes all operations or none; throws Error where none, and is called
  // again with the same later. Operations that no database would take are left
  // out for good and marked `refused`; the error of one of them is returned.
  // Runs on the queue's thread.
  using Commit = std::function<std::optional<Error>(std::vector<WriteOp>&)>;

  explicit WriteQueue(Commit commit, size_t capacity = 1 << 16);
  // Writes what is queued, with one last try if writing fails.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // Queues, then throws the error of a write that failed since the last call
  // of any method, if any. Waits while `capacity` operations are queued, but
  // not while writing fails.
  void push(WriteOp op);
  // What is pushed between the two is written in one transaction. They nest.
  void begin_group();
  void end_group();
  // Waits until all that was queued before (but for a group that is open) is
  // written and its callbacks have run; throws as soon as a write fails.
  void flush();
  // Throws the error of a failed write, if any, and forgets it.
  void raise();

 private:
  void run();
  uint64_t ready() const;
  void write_group(std::unique_lock<std::mutex>& lock);
  void note_failure(const Error& error);
  void throw_problem(std::unique_lock<std::mutex>& lock);

  const Commit commit_;
  const size_t capacity_;

  std::mutex mutex_;
  std::condition_variable work_;      // for the thread
  std::condition_variable progress_;  // for callers
  std::deque<WriteOp> queue_;         // guarded by mutex_, as all below
  uint64_t pushed_ = 0;
  uint64_t written_ = 0;    // callbacks included
  uint64_t depth_ = 0;      // of open groups
  uint64_t open_from_ = 0;  // pushed_ when the outermost one was opened
  uint64_t failures_ = 0;   // over the queue's life
  uint64_t in_a_row_ = 0;   // failures since the last success
  bool urgent_ = false;     // try again now
  bool stopping_ = false;
  std::optional<Error> problem_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace dtune
