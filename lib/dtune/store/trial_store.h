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
};

// The study's own row; recipe_yaml is parsed by whoever loads it (config), as
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
};

// All methods of the writing side queue and return at once; one writer thread
// commits in batches, in order. flush() waits for all that was queued before.
// A failed write (disk full, I/O error) is reported by the next call of any
// method, as Error(temporary) or Error(store); what was acknowledged is safe.
// Thread-safe.
class TrialStore {
 public:
  virtual ~TrialStore() = default;

  virtual void put_study(const StudyRow& row) = 0;  // insert or replace
  // Insert or replace everything of the trial except its curve.
  virtual void put_trial(const Trial& trial) = 0;
  // Idempotent: keyed by (trial, attempt, step); a repeat changes nothing.
  // `on_commit` runs on the writer thread once the row is safe, also for a
  // repeat.
  virtual void put_report(TrialId trial, Attempt attempt,
                          const StepReport& report,
                          std::function<void()> on_commit) = 0;
  virtual void put_event(const TrialEvent& event) = 0;
  virtual void put_decision(const Decision& decision) = 0;
  virtual void flush() = 0;

  // Reading side: what is committed. A trial's curve holds for each step the
  // report of the latest attempt that has it.
  virtual std::optional<StudyRow> load_study() = 0;
  virtual std::vector<Trial> load_trials() = 0;
  virtual std::vector<TrialEvent> load_events(TrialId trial) = 0;  // 0: all
  virtual std::vector<Decision> load_decisions() = 0;
};

std::unique_ptr<TrialStore> make_memory_store();

enum class StoreMode {
  create_or_open,  // the coordinator: takes the single-writer lock
  open,            // likewise, but the file must exist
  read_only,       // viewers: never locks out the writer, any number of them
};

// A SQLite file, WAL, synchronous=FULL. Throws Error(store) where the file is
// no database of dtune, damaged (says how to salvage), or of a newer schema
// (says which dtune wrote it); Error(temporary) where another coordinator holds
// it (says its process id), or the disk is full.
std::unique_ptr<TrialStore> open_sqlite_store(const std::filesystem::path& path,
                                              StoreMode mode);

}  // namespace dtune
