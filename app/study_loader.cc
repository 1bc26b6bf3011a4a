#include "app/study_loader.h"

#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/store/consistency.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

Study study_of(const StudyRow& row, const RecipeFile& recipe) {
  Study study;
  study.id = row.id;
  study.recipe = recipe.recipe();
  apply_granted_budget(row, study.recipe);
  study.recipe_yaml = row.recipe_yaml;
  study.state = row.state;
  study.horizon = row.horizon;
  study.searched_seconds = row.searched_seconds;
  study.created_ms = row.created_ms;
  study.sessions = row.sessions;
  return study;
}

StudyRow row_of(TrialStore& store, const fs::path& database) {
  std::optional<StudyRow> row = store.load_study();
  if (row) return *std::move(row);
  throw Error(ErrorKind::store,
              fmt::format("{}: holds no study yet ('dtune run' with its recipe "
                          "starts one)",
                          database.string()));
}

}  // namespace

StudyFacts facts_at(const StudyRow& row, const fs::path& database) {
  StudyFacts facts = facts_of(row, short_path(database));
  const fs::path beside = files_of(database).model();
  const bool any = facts.result && !facts.result->model.empty();
  if (any && fs::exists(beside)) {
    facts.result->model = fs::absolute(beside).lexically_normal().string();
  }
  return facts;
}

LoadedStudy load_study(const fs::path& database, StoreMode mode,
                       CurvePart part) {
  std::unique_ptr<TrialStore> store = open_sqlite_store(database, mode);
  StudyRow row = row_of(*store, database);
  RecipeFile recipe =
      RecipeFile::parse_stored(row.recipe_yaml, database.string() + ": recipe",
                               fs::path(row.recipe_path).parent_path());
  // `dtune ask` and `dtune tell` hold the database for a moment only.
  if (mode == StoreMode::read_only && row.state == StudyState::running &&
      !is_run_by_others(recipe.recipe()) && !writer_of(database)) {
    row.state = StudyState::interrupted;
  }
  Study study = study_of(row, recipe);
  study.trials = store->load_trials(part);
  try {
    check_units(study.recipe.space, study.trials);
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{}: {}", database.string(), error.what()));
  }
  study.reports = last_sequence(study.trials);
  if (mode != StoreMode::read_only) {
    const auto decisions = store->load_decisions();
    study.decisions = decisions.empty() ? 0 : decisions.back().number;
  }
  StudyFacts facts = facts_at(row, database);
  return {.files = files_of(database),
          .store = std::move(store),
          .row = std::move(row),
          .recipe = std::move(recipe),
          .study = std::move(study),
          .facts = std::move(facts)};
}

const Trial& find_trial(const LoadedStudy& loaded, const std::string& text) {
  const auto id = parse_number<TrialId>(text);
  const size_t count = loaded.study.trials.size();
  if (!id || *id < 1 || *id > static_cast<TrialId>(count)) {
    throw Error(
        ErrorKind::config,
        fmt::format("{}: has no trial '{}' ({})", loaded.facts.database, text,
                    count == 0 ? "it has none yet"
                               : fmt::format("it has 1 to {}", count)));
  }
  return loaded.study.trial(*id);
}

void refresh_facts(LoadedStudy& loaded) {
  loaded.store->flush();
  loaded.row = row_of(*loaded.store, loaded.files.database);
  loaded.facts = facts_at(loaded.row, loaded.files.database);
}

StudyFacts shown_facts(const LoadedStudy& loaded) {
  StudyFacts facts = loaded.facts;
  if (!facts.result) return facts;
  if (!facts.result->model.empty()) {
    facts.result->model = short_path(facts.result->model);
  }
  // Without a final training these are the best trial's, which is shown.
  if (facts.result->final_trial == 0) facts.result->metrics.clear();
  return facts;
}

void apply_granted_budget(const StudyRow& row, Recipe& recipe) {
  recipe.budget.trials = static_cast<int>(row.budget_trials);
  recipe.budget.time = from_seconds(row.budget_seconds);
  recipe.budget.steps = row.budget_steps;
}

void grant_budget(const BudgetSpec& budget, StudyRow& row) {
  row.budget_trials = budget.trials;
  row.budget_seconds = to_seconds(budget.time);
  row.budget_steps = budget.steps;
}

std::optional<pid_t> writer_of(const fs::path& database) {
  std::error_code error;
  const fs::path real = fs::canonical(database, error);  // as its writer does
  const std::string lock = real.string() + "-lock";
  struct stat info {};
  if (::stat(lock.c_str(), &info) != 0) return {};
  const std::string inode = fmt::format(":{}", info.st_ino);
  const std::string wanted = fmt::format("{:02x}:{:02x}{}", major(info.st_dev),
                                         minor(info.st_dev), inode);
  pid_t named = 0;  // by the process that has taken the lock
  std::ifstream(lock) >> named;
  std::ifstream locks("/proc/locks");
  std::string line;
  while (std::getline(locks, line)) {
    // "1: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF"
    std::istringstream words(line);
    std::string number, kind, advisory, access, file;
    pid_t holder = 0;
    words >> number >> kind >> advisory >> access >> holder >> file;
    if (!words || kind != "FLOCK") continue;
    // Btrfs and overlays show files under another device than the kernel.
    const bool same =
        file == wanted || (file.ends_with(inode) && holder == named);
    if (same) return holder;
  }
  return {};
}

}  // namespace dtune
