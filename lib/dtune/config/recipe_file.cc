#include "dtune/config/recipe_file.h"

#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/config/document.h"
#include "dtune/config/path.h"

namespace dtune {

Override parse_override(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ErrorKind::config,
                fmt::format("--set {}: no {} (write --set train.epochs=4)",
                            text, equals == 0 ? "key before '='" : "'='"));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

RecipeFile::RecipeFile(std::shared_ptr<const Document> document)
    : document_(std::move(document)), recipe_(read_recipe(*document_)) {}

RecipeFile RecipeFile::load(const std::filesystem::path& path,
                            const std::vector<Override>& overrides) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  std::string text;
  try {
    text = read_file(path, kMaxBytes);
  } catch (const Error& error) {
    throw RecipeError(
        {{path.string(),
          fmt::format("cannot be read as a recipe: {}", error.what()), ""}});
  }
  return parse(text, path.string(), path.parent_path(), overrides);
}

RecipeFile RecipeFile::parse(const std::string& yaml, const std::string& name,
                             const std::filesystem::path& directory,
                             const std::vector<Override>& overrides) {
  return RecipeFile(std::make_shared<const Document>(
      read_document(yaml, name, directory, overrides)));
}

RecipeFile RecipeFile::parse_stored(const std::string& yaml,
                                    const std::string& name,
                                    const std::filesystem::path& directory,
                                    const std::vector<Override>& overrides) {
  auto document = std::make_shared<Document>(
      read_document(yaml, name, directory, overrides));
  document->sources.stored = true;
  return RecipeFile(std::move(document));
}

RecipeError RecipeFile::problem(const std::string& key,
                                const std::string& message) const {
  const Mark mark = mark_of_path(document_->tree, key);
  const Sources& sources = document_->sources;
  return RecipeError({{sources.where(mark), message, sources.excerpt(mark)}});
}

TrialRecipe RecipeFile::with_point(const Point& point) const {
  const std::string reason = recipe_.space.reason_invalid(point);
  if (!reason.empty()) {
    throw RecipeError({{document_->sources.name, reason, ""}});
  }
  TrialRecipe trial;
  trial.recipe = read_point(*document_, recipe_.space, point);
  trial.yaml = emit_yaml(resolve(trial.recipe));
  return trial;
}

std::string RecipeFile::resolved_yaml() const {
  return emit_yaml(resolve(recipe_));
}

std::string RecipeFile::search_yaml() const {
  Recipe recipe = recipe_;
  for (std::string* path : paths_of(recipe)) {
    const auto relative =
        std::filesystem::path(*path).lexically_relative(recipe.directory);
    const bool inside = !relative.empty() && *relative.begin() != "..";
    if (inside) *path = relative;
  }
  YamlNode tree = resolve(recipe);
  for (const char* key : {"study", "budget", "stop", "resources", "parallel",
                          "nodes", "limits", "final", "expect"}) {
    tree.erase(key);
  }
  return emit_yaml(tree);
}

std::string RecipeFile::search_hash() const {
  return fmt::format("{:016x}", hash_text(search_yaml()));
}

namespace {

// Dotted key -> text of every value.
void flatten(const YamlNode& node, const std::string& path,
             std::map<std::string, std::string>& out) {
  if (!node.is_map() || node.items.empty()) {
    out[path] = emit_yaml(node);
    return;
  }
  for (const YamlNode& item : node.items) {
    flatten(item, path.empty() ? item.key : path + "." + item.key, out);
  }
}

std::map<std::string, std::string> flatten_text(const std::string& yaml) {
  std::map<std::string, std::string> flat;
  try {
    flatten(parse_yaml(yaml), "", flat);
  } catch (const YamlProblem& problem) {
    throw Error(ErrorKind::config,
                fmt::format("the stored recipe is not valid, line {}: {}",
                            problem.mark.line, problem.message));
  }
  return flat;
}

}  // namespace

std::vector<std::string> changed_keys(const std::string& old_yaml,
                                      const std::string& new_yaml) {
  std::map<std::string, std::string> before = flatten_text(old_yaml);
  std::map<std::string, std::string> after = flatten_text(new_yaml);
  std::vector<std::string> changed;
  for (const auto& [key, value] : before) {
    const auto found = after.find(key);
    if (found == after.end() || found->second != value) changed.push_back(key);
  }
  for (const auto& [key, value] : after) {
    if (!before.contains(key)) changed.push_back(key);
  }
  return changed;
}

}  // namespace dtune
