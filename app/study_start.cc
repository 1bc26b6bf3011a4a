#include "app/study_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "dtune/base/random.h"
#include "dtune/base/text.h"
#include "dtune/report/facts.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// Unique for ever: names processes and folders.
std::string new_study_id(const std::string& name) {
  const uint64_t mixed = mix_seed(
      {static_cast<uint64_t>(system_clock().wall_ms()),
       static_cast<uint64_t>(system_clock().now().time_since_epoch().count()),
       static_cast<uint64_t>(::getpid())});
  return fmt::format("{}-{:08x}", as_label(name.substr(0, 40)), mixed >> 32);
}

bool same_budget(const BudgetSpec& a, const BudgetSpec& b) {
  return a.trials == b.trials && a.time == b.time && a.steps == b.steps;
}

// Some limit is higher, or gone (0).
bool is_larger(const BudgetSpec& budget, const StudyRow& granted) {
  const auto larger = [](double now, double before) {
    return before > 0 && (now == 0 || now > before);
  };
  return larger(budget.trials, double(granted.budget_trials)) ||
         larger(to_seconds(budget.time), granted.budget_seconds) ||
         larger(double(budget.steps), double(granted.budget_steps));
}

}  // namespace

bool holds_study(const fs::path& database) {
  if (!fs::exists(database)) return false;
  try {
    return open_sqlite_store(database, StoreMode::read_only)
        ->load_study()
        .has_value();
  } catch (const Error&) {
    // The writer's side says best what is wrong with it.
    return open_sqlite_store(database, StoreMode::open)
        ->load_study()
        .has_value();
  }
}

void create_study(const fs::path& database, const fs::path& path,
                  const RecipeFile& file, const StudyCheck& check) {
  const Recipe& recipe = file.recipe();
  StudyRow row;
  row.horizon = check.horizon;
  row.id = new_study_id(recipe.study);
  row.name = recipe.study;
  row.recipe_yaml = file.resolved_yaml();
  row.recipe_hash = file.search_hash();
  row.recipe_path = fs::absolute(path).lexically_normal().string();
  row.created_ms = system_clock().wall_ms();
  row.metric = recipe.objective.metric;
  row.goal = recipe.objective.goal;
  grant_budget(recipe.budget, row);
  const auto store = open_sqlite_store(database, StoreMode::create_or_open);
  store->put_study(row);
  store->flush();
}

void check_same_study(const LoadedStudy& loaded, const RecipeFile& file,
                      const std::string& command) {
  const std::vector<std::string> changed =
      changed_keys(loaded.recipe.search_yaml(), file.search_yaml());
  if (changed.empty()) return;
  const std::string name = short_path(loaded.files.database);
  const char* going_on =
      is_run_by_others(loaded.recipe.recipe()) ? "ask" : "resume";
  const std::string anew =
      command == "run" ? "start anew, the old one is moved aside: --fresh; "
                       : "";
  throw Error(
      ErrorKind::config,
      fmt::format("{}: holds a study of another recipe (changed: {}) (go on "
                  "with that study: {}; {}keep both: --db OTHER.db)",
                  name, fmt::join(changed, ", "),
                  quoted_command(
                      fmt::format("dtune {} {}", going_on, shell_quoted(name))),
                  anew));
}

bool adopt_recipe(LoadedStudy& loaded, const RecipeFile& file) {
  const BudgetSpec& said = file.recipe().budget;
  const bool budget_changed = !same_budget(loaded.recipe.recipe().budget, said);
  const bool more = budget_changed && is_larger(said, loaded.row);
  if (budget_changed) grant_budget(said, loaded.row);
  loaded.row.recipe_yaml = file.resolved_yaml();
  loaded.row.recipe_path =
      file.recipe().directory / fs::path(loaded.row.recipe_path).filename();
  loaded.recipe = file;
  loaded.study.recipe = file.recipe();
  loaded.study.recipe_yaml = loaded.row.recipe_yaml;
  apply_granted_budget(loaded.row, loaded.study.recipe);
  loaded.facts = facts_at(loaded.row, loaded.files.database);
  return more;
}

RunDecision decide_run(const fs::path& database, const RecipeFile& file) {
  if (!holds_study(database)) {
    check_database_folder(database);
    return {.text = "new"};
  }
  RunDecision decision;
  decision.seen = load_study(database, StoreMode::read_only);
  LoadedStudy& seen = *decision.seen;
  check_same_study(seen, file);
  const bool more = adopt_recipe(seen, file);
  if (seen.study.state == StudyState::finished && !more) {
    decision.kind = RunDecision::Kind::show_result;
    decision.text = "its study is finished: a run shows the result";
    return decision;
  }
  decision.kind = RunDecision::Kind::go_on;
  const auto writer = writer_of(database);
  decision.text =
      writer
          ? fmt::format("process {} works on it: a run has to wait", *writer)
          : fmt::format("a run continues it: {}", describe_states(seen.study));
  return decision;
}

}  // namespace dtune
