#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "dtune/store/open_database.h"
#include "dtune/store/rows.h"
#include "dtune/store/sqlite_writer.h"
#include "dtune/store/trial_store.h"
#include "dtune/store/write_queue.h"

namespace dtune {
namespace {

// Calls `read`; what it finds wrong with a row is said with the file's name.
template <typename Read>
auto read_from(const std::filesystem::path& path, Read read) {
  try {
    return read();
  } catch (const SqliteError&) {
    throw;
  } catch (const Error& error) {
    throw Error(ErrorKind::data,
                fmt::format("{}: {}", path.string(), error.what()));
  }
}

// A connection for loading, used by one thread at a time.
class Reader {
 public:
  Reader(OpenDatabase opened, std::filesystem::path path)
      : opened_(std::move(opened)), path_(std::move(path)) {}

  // Runs `read` on one consistent state of the database.
  template <typename Read>
  auto snapshot(Read read) {
    const std::lock_guard lock(mutex_);
    DTUNE_CHECK(opened_.connection != nullptr);
    Database& database = *opened_.connection;
    database.execute("BEGIN");
    try {
      auto result = read_from(path_, [&] { return read(database); });
      database.execute("COMMIT");
      return result;
    } catch (...) {
      try {
        if (!database.autocommit()) database.execute("ROLLBACK");
      } catch (const Error&) {
        // What went wrong first says more.
      }
      throw;
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    opened_.connection.reset();
  }

 private:
  std::mutex mutex_;
  OpenDatabase opened_;
  const std::filesystem::path path_;  // as the user named it
};

class ReadOnlyStore : public TrialStore {
 public:
  ReadOnlyStore(OpenDatabase opened, const std::filesystem::path& path)
      : reader_(std::move(opened), path) {}

  void put_study(const StudyRow&) override { refuse(); }
  void put_trial(const Trial&) override { refuse(); }
  void put_report(TrialId, Attempt, const StepReport&,
                  std::function<void()>) override {
    refuse();
  }
  void put_event(const TrialEvent&) override { refuse(); }
  void put_decision(const Decision&) override { refuse(); }
  void put_session(const Session&) override { refuse(); }
  void put_rank_round(const RankRound&) override { refuse(); }
  void flush() override {}

  std::optional<StudyRow> load_study() override {
    return reader_.snapshot(read_study);
  }
  std::vector<Trial> load_trials(CurvePart part) override {
    return reader_.snapshot([part](Database& database) {
      // Also pages that nothing is read from here: decisions, indices.
      if (part == CurvePart::whole) check_sound(database);
      return read_trials(database, part);
    });
  }
  std::vector<TrialEvent> load_events(TrialId trial) override {
    return reader_.snapshot(
        [trial](Database& database) { return read_events(database, trial); });
  }
  std::vector<Decision> load_decisions() override {
    return reader_.snapshot(read_decisions);
  }
  StudyRecords load_records() override {
    return reader_.snapshot(read_records);
  }

 protected:
  void close_reader() { reader_.close(); }

 private:
  [[noreturn]] static void refuse() {
    throw Error(ErrorKind::internal,
                "a store that was opened for reading was written to (a bug in "
                "dtune: please report it)");
  }

  Reader reader_;
};

// Loads through a connection of its own, so that a long write does not hold up
// a reader, nor the other way round.
class SqliteStore final : public ReadOnlyStore {
 public:
  SqliteStore(OpenDatabase writing, OpenDatabase reading,
              const std::filesystem::path& path)
      : ReadOnlyStore(std::move(reading), path),
        opened_(std::move(writing)),
        writer_(*opened_.connection),
        queue_([this](std::vector<WriteOp>& group) {
          return writer_.commit(group);
        }) {
    const auto row =
        read_from(path, [this] { return read_study(*opened_.connection); });
    if (row) remember(*row);
  }

  // The writer's connection must be the last to close: that merges the log and
  // leaves one file.
  ~SqliteStore() override { close_reader(); }
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  void put_study(const StudyRow& row) override {
    const std::lock_guard lock(mutex_);
    if (!study_id_.empty() && study_id_ != row.id) refuse_other_study(row);
    remember(row);
    queue_.push({Table::study, study_row(row), {}, {}});
  }
  void put_trial(const Trial& trial) override {
    queue_.push({Table::trial, trial_row(trial), {}, {}});
  }
  void put_report(TrialId trial, Attempt attempt, const StepReport& report,
                  std::function<void()> on_commit) override {
    Row row = report_row(trial, attempt, report);
    const std::lock_guard lock(mutex_);  // the objective is that of its time
    queue_.push({Table::report, std::move(row),
                 objective_value(objective_, report), std::move(on_commit)});
  }
  void put_event(const TrialEvent& event) override {
    queue_.push({Table::event, event_row(event), {}, {}});
  }
  void put_decision(const Decision& decision) override {
    queue_.push({Table::decision, decision_row(decision), {}, {}});
  }
  void put_session(const Session& session) override {
    queue_.push({Table::session, session_row(session), {}, {}});
  }
  void put_rank_round(const RankRound& rank) override {
    queue_.push({Table::rank_round, rank_round_row(rank), {}, {}});
  }
  void after_commit(std::function<void()> act) override {
    queue_.push({Table::none, {}, {}, std::move(act)});
  }
  void begin_group() override { queue_.begin_group(); }
  void end_group() override { queue_.end_group(); }
  void flush() override { queue_.flush(); }

  std::optional<StudyRow> load_study() override {
    queue_.raise();
    return ReadOnlyStore::load_study();
  }
  std::vector<Trial> load_trials(CurvePart part) override {
    queue_.raise();
    return ReadOnlyStore::load_trials(part);
  }
  std::vector<TrialEvent> load_events(TrialId trial) override {
    queue_.raise();
    return ReadOnlyStore::load_events(trial);
  }
  std::vector<Decision> load_decisions() override {
    queue_.raise();
    return ReadOnlyStore::load_decisions();
  }
  StudyRecords load_records() override {
    queue_.raise();
    return ReadOnlyStore::load_records();
  }

 private:
  void remember(const StudyRow& row) {
    study_id_ = row.id;
    study_name_ = row.name;
    objective_ = {row.metric, row.goal};
  }

  [[noreturn]] void refuse_other_study(const StudyRow& row) const {
    throw Error(ErrorKind::store,
                fmt::format("{}: holds another study, '{}' ({}), not '{}' ({}) "
                            "(choose another file with --db)",
                            opened_.connection->path().string(), study_name_,
                            study_id_, row.name, row.id));
  }

  std::mutex mutex_;  // guards the three below; taken before the queue's
  std::string study_id_;
  std::string study_name_;
  ObjectiveSpec objective_;

  OpenDatabase opened_;
  SqliteWriter writer_;  // the queue's thread uses it, once that has started
  WriteQueue queue_;     // last: its destructor writes what is left
};

}  // namespace

std::unique_ptr<TrialStore> open_sqlite_store(const std::filesystem::path& path,
                                              StoreMode mode) {
  if (mode == StoreMode::read_only) {
    return std::make_unique<ReadOnlyStore>(open_for_reading(path), path);
  }
  OpenDatabase writing = open_for_writing(path, mode);
  return std::make_unique<SqliteStore>(std::move(writing),
                                       open_for_reading(path), path);
}

}  // namespace dtune
