#include "app/study_start.h"

#include <cctype>

#include "app/study_run.h"
#include "app/study_tuner.h"
#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/random.h"
#include "dtune/data/prepared.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// Unique for ever: names processes and folders.
std::string new_study_id(const std::string& name) {
  const uint64_t mixed = mix_seed(
      {static_cast<uint64_t>(system_clock().wall_ms()),
       static_cast<uint64_t>(system_clock().now().time_since_epoch().count()),
       static_cast<uint64_t>(::getpid())});
  std::string word;
  for (const char c : name.substr(0, 40)) {
    const auto byte = static_cast<unsigned char>(c);
    word +=
        std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return fmt::format("{}-{:08x}", word, mixed >> 32);
}

int64_t training_samples(const Console& console, const Recipe& recipe) {
  if (recipe.command) return 0;
  return PreparedData(prepare_recipe_data(console, recipe)).count(Split::train);
}

// Keys that do not define the search (RecipeFile::search_hash).
bool defines_search(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  for (const char* other : {"budget", "resources", "parallel", "nodes",
                            "limits", "final", "expect", "study"}) {
    if (section == other) return false;
  }
  return true;
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

void create_study(const Console& console, const fs::path& database,
                  const fs::path& path, const RecipeFile& file) {
  const Recipe& recipe = file.recipe();
  StudyRow row;
  row.horizon = horizon_steps(recipe, training_samples(console, recipe));
  // A tuner that cannot be made must not leave a study behind.
  tuner_of(recipe, row.horizon);
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

void check_same_study(const LoadedStudy& loaded, const RecipeFile& file) {
  if (loaded.row.recipe_hash == file.search_hash()) return;
  std::string keys;
  for (const std::string& key :
       changed_keys(loaded.row.recipe_yaml, file.resolved_yaml())) {
    if (defines_search(key)) keys += (keys.empty() ? "" : ", ") + key;
  }
  const std::string name = short_path(loaded.files.database);
  throw Error(
      ErrorKind::config,
      fmt::format("{0}: holds a study of another recipe (changed: {1}) (go on "
                  "with that study: 'dtune resume {2}'; start anew, the old "
                  "one is moved aside: --fresh; keep both: --db OTHER.db)",
                  name, keys, shell_quoted(name)));
}

}  // namespace dtune
