// Where studies are kept. One implementation in memory (tests, simulate), one
// in SQLite. The coordinator is the only writer of a study.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Something that happened, as it is kept: written once, never changed.
struct TrialEvent {
  TrialId trial = 0;
  Attempt attempt = 0;
  TrialState state = TrialState::waiting;
  Reason reason = Reason::none;
  std::string detail;
  int64_t wall_ms = 0;
  // When, in the study's own order: reports taken in and decisions taken
  // before it; -1: an older dtune kept no note of it.
  int64_t after_report = -1;
  int64_t after_decision = -1;
  int64_t session = 0;  // of StudyRow::sessions; 0: not known
  int failures = 0;     // of the trial, this one included
  std::string node;     // where the trial is or was; "": nowhere, not known
  int slot = -1;
};

// What a rank of a trial did up to a round of its gang. Rounds are sampled,
// ever fewer the more there are.
struct RankRound {
  TrialId trial = 0;
  Attempt attempt = 0;
  int64_t round = 0;
  int rank = 0;
  std::string node;
  int64_t wall_ms = 0;
  // Sums over all rounds so far:
  int64_t samples = 0;
  double compute_seconds = 0;
  double wait_seconds = 0;  // for slower ranks
  int64_t late = 0;         // rounds that went on without it
  double share = 0;         // of the batch, 0..1, in this round
  bool present = true;      // false: its gang has gone on without it
};

// One run or resume of the study's coordinator: what may differ between them.
struct Session {
  int64_t number = 0;  // 1, 2, ...
  std::string recipe_yaml;
  int64_t budget_trials = 0;  // as granted then
  double budget_seconds = 0;
  int64_t budget_steps = 0;
  int64_t started_ms = 0;
};

// The study's own row; recipe_yaml is parsed by its reader (config), as
// the store knows no YAML.
struct StudyRow {
  std::string id;
  std::string name;
  std::string recipe_yaml;
  std::string recipe_hash;  // of the search-relevant keys
  std::string recipe_path;  // absolute, for people
  StudyState state = StudyState::running;
  int horizon = 1;
  double searched_seconds = 0;
  int64_t created_ms = 0;
  int64_t budget_trials = 0;  // as granted so far; `resume --trials +n` adds
  double budget_seconds = 0;
  int64_t budget_steps = 0;
  std::string final_json;  // test metrics and files, once finished; or ""
  // recipe.objective: what the best step of a trial is by; "": none is kept.
  std::string metric;
  Goal goal = Goal::maximize;
  int64_t sessions = 0;  // begun so far
};

// A report as it came in: also one that a later attempt has replaced.
struct RecordedReport {
  TrialId trial = 0;
  Attempt attempt = 0;
  StepReport report;
};

// Everything that is known of how a study went, at one moment.
struct StudyRecords {
  std::optional<StudyRow> row;
  std::vector<Trial> trials;  // by id, without their curves
  std::vector<Session> sessions;
  std::vector<RecordedReport> reports;  // by sequence
  std::vector<TrialEvent> events;       // in order
  std::vector<Decision> decisions;      // by number
  std::vector<RankRound> ranks;         // by trial, attempt, round, rank
};

// What is loaded of the trials' curves.
enum class CurvePart {
  whole,
  ends,  // the best step by StudyRow::metric and the last one: enough for
         // best_value, last_value and steps(), and fast however long curves are
};

// All methods of the writing side queue and return at once (they wait where
// the writer is tens of thousands of records behind); one writer thread
// commits in batches, in order. flush() waits for all that was queued before.
//
// A failed write (disk full, I/O error) is reported by the next call of any
// method, as Error(temporary) or Error(store), once per failed attempt; what
// was acknowledged is safe. Nothing queued is dropped: a put that throws so has
// queued its record, and the writer tries again, less and less often, at once
// when flush() is called. A record that no database would take (a report of an
// unknown trial) is dropped and reported as Error(internal). Destroying a store
// writes what is queued if the disk lets it; call flush() to know.
//
// Thread-safe.
class TrialStore {
 public:
  virtual ~TrialStore() = default;

  // Insert or replace. Throws Error(store) where the database holds another
  // study, i.e. another id.
  virtual void put_study(const StudyRow& row) = 0;
  // Insert or replace everything of the trial except its curve.
  virtual void put_trial(const Trial& trial) = 0;
  // Idempotent: keyed by (trial, attempt, step); a repeat changes nothing.
  // `on_commit` runs on the writer thread once the row is safe, also for a
  // repeat. It may be empty, must not throw and must not call the store.
  // REQUIRES: put_trial was called for the trial before; report.step > 0.
  virtual void put_report(TrialId trial, Attempt attempt,
                          const StepReport& report,
                          std::function<void()> on_commit) = 0;
  virtual void put_event(const TrialEvent& event) = 0;
  virtual void put_decision(const Decision& decision) = 0;
  virtual void put_session(const Session& session) = 0;
  // Keyed by (trial, attempt, round, rank); a repeat changes nothing.
  virtual void put_rank_round(const RankRound& rank) = 0;
  // What is put between the two is committed together or not at all. They
  // nest. Do not flush() in between: it waits for what was put before.
  virtual void begin_group() {}
  virtual void end_group() {}
  // Runs `act` once all that was put before is committed; as put_report's
  // `on_commit`, and in order with those.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): SQLite's keeps it.
  virtual void after_commit(std::function<void()> act) { act(); }
  virtual void flush() = 0;

  // Reading side: what is committed. A trial's curve holds for each step the
  // report of the latest attempt that has it.
  virtual std::optional<StudyRow> load_study() = 0;
  virtual std::vector<Trial> load_trials(CurvePart part) = 0;  // by id
  std::vector<Trial> load_trials() { return load_trials(CurvePart::whole); }
  virtual std::vector<TrialEvent> load_events(TrialId trial) = 0;  // 0: all
  virtual std::vector<Decision> load_decisions() = 0;
  virtual StudyRecords load_records() = 0;
};

enum class StoreMode {
  create_or_open,  // the coordinator: takes the single-writer lock
  open,            // likewise, but the file must exist
  read_only,       // viewers: never locks out the writer, any number of them,
                   // works in a folder that cannot be written, too
};

// Throws Error(data) where no database can be made for want of its folder.
void check_database_folder(const std::filesystem::path& path);

// A SQLite file, WAL, synchronous=FULL; schema.h says what its tables are. A
// writer keeps `<path>-lock` beside it. Throws Error(store) where the file is
// no database of dtune, damaged (says how to salvage), or of a newer schema
// (says which dtune wrote it), or where its file system cannot keep it safe
// (NFS and the like); Error(data) where it does not exist, has several names
// (hard links), or its tables are not those of dtune; Error(temporary) where
// another coordinator holds it (says its process id), or the disk is full. The
// writing side of a read_only store throws Error(internal), its reading side
// Error(data) where rows contradict each other (consistency.h). A writer whose
// study another process has gone on with throws Error(study) from then on.
std::unique_ptr<TrialStore> open_sqlite_store(const std::filesystem::path& path,
                                              StoreMode mode);

}  // namespace dtune
