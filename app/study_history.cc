#include "app/study_history.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "app/study_loader.h"
#include "app/study_start.h"

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/config/sugar.h"
#include "dtune/config/yaml_node.h"
#include "dtune/tuner/warm_start.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostListed = 200;  // of the latest, more are forgotten
constexpr size_t kMostOpened = 40;   // each is read whole
constexpr size_t kMostUsed = 3;
constexpr size_t kFewestResults = 3;
constexpr uintmax_t kLargestList = 64 << 10;  // bytes, before it is shortened
constexpr double kShared = 0.5;               // of the parameters

bool is_off() {
  const char* value = std::getenv("DTUNE_HISTORY");
  return value != nullptr && std::string(value) == "off";
}

fs::path list_file() { return cache_directory() / "studies"; }

// The latest first, each once.
std::vector<fs::path> listed_studies() {
  std::vector<fs::path> paths;
  std::ifstream in(list_file());
  for (std::string line; std::getline(in, line);) paths.emplace_back(line);
  std::reverse(paths.begin(), paths.end());
  std::set<fs::path> seen;
  std::erase_if(paths, [&](const fs::path& path) {
    std::error_code error;
    return !seen.insert(path).second || !fs::is_regular_file(path, error);
  });
  if (paths.size() > kMostListed) paths.resize(kMostListed);
  return paths;
}

void shorten_list() {
  std::error_code error;
  if (fs::file_size(list_file(), error) <= kLargestList || error) return;
  std::vector<fs::path> paths = listed_studies();
  std::reverse(paths.begin(), paths.end());
  std::string text;
  for (const fs::path& path : paths) text += path.string() + "\n";
  write_file_atomic(list_file(), text, false);
}

// Parameters of both, as a share of the larger space.
double shared_parameters(const SearchSpace& a, const SearchSpace& b) {
  const auto& ours = a.parameters();
  const auto both =
      std::count_if(ours.begin(), ours.end(),
                    [&](const Parameter& p) { return b.find(p.name); });
  const size_t most = std::max(ours.size(), b.parameters().size());
  return most == 0 ? 0 : double(both) / double(most);
}

// The same kind of thing is trained.
bool is_comparable(const Recipe& a, const Recipe& b) {
  if (a.command.has_value() != b.command.has_value()) return false;
  if (!a.command) return true;
  const auto& ours = a.command->argv;
  const auto& theirs = b.command->argv;
  return !ours.empty() && !theirs.empty() && ours.front() == theirs.front();
}

int alike(const Recipe& a, const Recipe& b) {
  if (a.command) return a.command->argv == b.command->argv ? 1 : 0;
  const auto same = [](bool yes) { return yes ? 1 : 0; };
  return 2 * same(a.data.kind == b.data.kind && a.data.path == b.data.path) +
         2 * same(a.model.arch == b.model.arch) +
         same(a.train.optimizer == b.train.optimizer) +
         same(a.train.schedule.kind == b.train.schedule.kind);
}

struct Related {
  std::string path;
  int alike = 0;
};

std::optional<Related> relation(const Recipe& recipe, const fs::path& path) {
  try {
    LoadedStudy loaded = load_study(path, StoreMode::read_only);
    const WarmStudy old = {.name = path.string(),
                           .recipe = std::move(loaded.study.recipe),
                           .horizon = loaded.study.horizon,
                           .trials = std::move(loaded.study.trials)};
    check_warm_study(recipe, old);
    const bool enough =
        is_comparable(recipe, old.recipe) &&
        shared_parameters(recipe.space, old.recipe.space) >= kShared &&
        warm_observations(recipe, old, kFewestResults).size() >= kFewestResults;
    if (!enough) return std::nullopt;
    return Related{path.string(), alike(recipe, old.recipe)};
  } catch (const Error&) {
    return std::nullopt;  // moved, damaged, of another version or metric
  }
}

std::string yaml_list(const std::vector<std::string>& words) {
  YamlNode list = YamlNode::list();
  for (const std::string& word : words) {
    list.items.push_back(YamlNode::word(word));
  }
  return emit_yaml(list);
}

}  // namespace

bool asks_for_related(const Recipe& recipe) {
  return recipe.warm_start == std::vector<std::string>{kRelatedStudies};
}

void remember_study(const fs::path& database) {
  if (is_off()) return;
  try {
    std::error_code error;
    fs::create_directories(list_file().parent_path(), error);
    const std::string line =
        fs::absolute(database).lexically_normal().string() + "\n";
    if (std::count(line.begin(), line.end(), '\n') != 1) return;
    // One short write at the end: those of other processes stay whole.
    std::ofstream(list_file(), std::ios::app) << line << std::flush;
    shorten_list();
  } catch (const std::exception&) {
    // The study is safe; only a later one has to do without it.
  }
}

std::vector<std::string> related_studies(const Recipe& recipe,
                                         const fs::path& own) {
  if (is_off()) return {};
  const fs::path self = fs::absolute(own).lexically_normal();
  std::vector<Related> found;
  size_t opened = 0;
  for (const fs::path& path : listed_studies()) {
    if (path == self) continue;
    if (++opened > kMostOpened) break;
    if (const auto related = relation(recipe, path)) found.push_back(*related);
  }
  std::stable_sort(
      found.begin(), found.end(),
      [](const Related& a, const Related& b) { return a.alike > b.alike; });
  if (found.size() > kMostUsed) found.resize(kMostUsed);
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (Related& r : found) paths.push_back(std::move(r.path));
  return paths;
}

RecipeFile load_for_study(const fs::path& path, std::vector<Override> overrides,
                          const fs::path& database, bool anew) {
  RecipeFile file = RecipeFile::load(path, overrides);
  if (!asks_for_related(file.recipe())) return file;
  const bool begun = !anew && holds_study(database);
  const std::vector<std::string> chosen =
      begun ? load_study(database, StoreMode::read_only).study.recipe.warm_start
            : related_studies(file.recipe(), database);
  overrides.push_back({"warm_start", yaml_list(chosen)});
  return RecipeFile::load(path, overrides);
}

}  // namespace dtune
