// A study as its database has it.
#pragma once

#include <memory>
#include <optional>

#include "app/study_files.h"
#include <sys/types.h>

#include "dtune/config/recipe_file.h"
#include "dtune/report/facts.h"
#include "dtune/store/trial_store.h"
#include "dtune/study/study.h"

namespace dtune {

struct LoadedStudy {
  StudyFiles files;
  std::unique_ptr<TrialStore> store;
  StudyRow row;
  RecipeFile recipe;  // budgets as the recipe says, not as granted
  Study study;        // budgets as granted
  StudyFacts facts;
};

// Throws as open_sqlite_store does; Error(store) where the database holds no
// study. A study that says `running` but that no process works on is shown as
// interrupted. Modes that write load the whole curves and the decisions.
LoadedStudy load_study(const std::filesystem::path& database, StoreMode mode,
                       CurvePart part = CurvePart::whole);

// The trial that a user means by its number. Throws Error(config).
const Trial& find_trial(const LoadedStudy& loaded, const std::string& text);

// The facts of a study whose database lies there: it may have been moved, with its
// other files or without them.
StudyFacts facts_at(const StudyRow& row, const std::filesystem::path& database);

// Reads row and facts again (after a run).
void refresh_facts(LoadedStudy& loaded);

// The facts as people read them: files relative to the current folder.
StudyFacts shown_facts(const LoadedStudy& loaded);

// The budgets that the row grants, into the study's recipe, where the
// coordinator reads them; and the other way round.
void apply_granted_budget(const StudyRow& row, Recipe& recipe);
void grant_budget(const BudgetSpec& budget, StudyRow& row);

// The process that works on the database now, if one does. Looks at the
// kernel's table of locks: takes none itself.
std::optional<pid_t> writer_of(const std::filesystem::path& database);

}  // namespace dtune
