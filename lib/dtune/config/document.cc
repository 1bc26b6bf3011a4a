#include "dtune/config/document.h"

#include <cctype>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "dtune/config/check.h"
#include "dtune/config/expect_section.h"
#include "dtune/config/extremes.h"
#include "dtune/config/path.h"
#include "dtune/config/points_section.h"
#include "dtune/config/reader.h"
#include "dtune/config/schema.h"
#include "dtune/config/space_section.h"
#include "dtune/config/sugar.h"
#include "dtune/config/writer.h"
#include "dtune/study/metrics.h"
#include "dtune/study/study.h"

namespace dtune {
namespace {

[[noreturn]] void fail(const Sources& sources, const YamlProblem& problem) {
  Diagnostics diagnostics(sources);
  diagnostics.add(problem.mark, problem.message);
  diagnostics.throw_if_any();
  throw RecipeError({});  // not reached: there is one
}

// A plain value for a line of `space:` fixes the parameter where it is: the key
// that it sets stays.
void keep_key(const YamlNode& tree, const std::string& path, YamlNode& value) {
  const YamlNode* line = find_path(tree, path);
  const YamlNode* key = line != nullptr ? line->find("key") : nullptr;
  if (key == nullptr || !value.is_scalar()) return;
  YamlNode fixed = YamlNode::map(value.mark);
  fixed.entry("value", value.mark).set_value(value);
  fixed.entry("key", value.mark).set_value(*key);
  value.set_value(fixed);
}

// Read as YAML. On a command line '>' is a comparison (expect.x=">= 0.9"), not
// the beginning of a text of several lines.
YamlNode override_value(const Override& override, int source) {
  const bool comparison = override.value.starts_with('>') &&
                          override.value.find('\n') == std::string::npos;
  if (!comparison) return parse_yaml(override.value, source);
  return YamlNode::scalar(override.value,
                          Mark{.line = 1, .column = 1, .source = source});
}

void apply_override(YamlNode& tree, const Override& override, int source) {
  const Mark mark{.line = 1, .column = 1, .source = source};
  YamlNode value;
  try {
    value = override_value(override, source);
  } catch (const YamlProblem& problem) {
    throw YamlProblem{mark, fmt::format("the value '{}' is not valid YAML ({})",
                                        override.value, problem.message)};
  }
  if (value.is_null()) value.mark = mark;  // no text has a place of its own
  // Short forms come first: they may be what the key goes into.
  expand_short_forms(tree);
  if (override.key.starts_with("space.")) keep_key(tree, override.key, value);
  const std::string problem = set_path(tree, long_key(override.key), value);
  if (!problem.empty()) throw YamlProblem{mark, problem};
  expand_short_forms(tree);
}

// "~/x" and paths relative to the recipe as absolute ones.
std::string absolute_path(const std::string& path,
                          const std::filesystem::path& directory) {
  if (path.empty()) return path;
  const char* home = std::getenv("HOME");
  if (path.starts_with("~/") && home != nullptr) {
    return std::filesystem::path(home) / path.substr(2);
  }
  return (directory / path).lexically_normal();
}

// "My recipe.yaml" -> "My-recipe".
std::string study_name(const std::string& file) {
  std::string name = std::filesystem::path(file).stem().string().substr(0, 64);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) == 0 && c != '_' && c != '-' && c != '.') c = '-';
  }
  const size_t first = name.find_first_not_of(".-");
  return first == std::string::npos ? "study" : name.substr(first);
}

// What 'expect' may name where a network is trained.
std::vector<std::string> expected_metrics() {
  std::vector<std::string> names = all_metrics();
  for (const StudyMetric& metric : study_metrics()) {
    names.emplace_back(metric.name);
  }
  return names;
}

// Everything but space, constraints and what they are checked against.
Recipe read_sections(const YamlNode& tree, const Document& document,
                     Diagnostics& diagnostics) {
  Recipe recipe;
  recipe.study = study_name(document.sources.name);
  recipe.directory = document.directory;
  Reader reader(tree, "", diagnostics, recipe_keys());
  describe_recipe(reader, recipe);
  reader.take("command");  // known, even where it is not there
  reader.take("space");
  reader.take("constraints");
  for (const char* key : {"data", "model", "train"}) {
    if (recipe.command) reader.take(key);  // check_recipe says why not
  }
  reader.take("points");
  const bool any = recipe.command.has_value();  // metrics of any name
  const std::vector<std::string> none;
  recipe.expect =
      read_expectations(reader.take("expect"), "expect",
                        any ? none : expected_metrics(), diagnostics);
  recipe.objective.require =
      read_expectations(reader.take("require"), "require",
                        any ? none : measured_metrics(), diagnostics);
  reader.finish();
  // Else a gang's shares and deadlines follow the clock.
  if (recipe.deterministic) {
    recipe.parallel.stragglers = StragglerPolicy::off;
  }
  if (recipe.command && recipe.command->directory.empty()) {
    recipe.command->directory = document.directory;
  }
  for (std::string* path : paths_of(recipe)) {
    *path = absolute_path(*path, document.directory);
  }
  return recipe;
}

std::vector<std::string> tuned_keys(const SearchSpace& space) {
  std::vector<std::string> keys;
  for (const Parameter& parameter : space.parameters()) {
    keys.push_back(parameter.key);
  }
  return keys;
}

// Without a slash at its end.
std::filesystem::path absolute_folder(const std::filesystem::path& folder) {
  const auto path = std::filesystem::absolute(folder.empty() ? "." : folder)
                        .lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

Document read_document(const std::string& yaml, const std::string& name,
                       const std::filesystem::path& directory,
                       const std::vector<Override>& overrides) {
  Document document;
  document.sources.name = name;
  document.sources.lines = Sources::split_lines(yaml);
  document.directory = absolute_folder(directory);
  for (const Override& one : overrides) {
    document.sources.overrides.push_back(one.key);
  }
  try {
    document.tree = parse_yaml(yaml);
    if (document.tree.is_null()) {
      throw YamlProblem{{.line = 1, .column = 1},
                        "the recipe is empty (`dtune init` writes a commented "
                        "one)"};
    }
    if (!document.tree.is_map()) {
      throw YamlProblem{document.tree.mark,
                        fmt::format("a recipe is a section of keys, not {}",
                                    describe_node(document.tree))};
    }
    expand_short_forms(document.tree);
    for (size_t i = 0; i < overrides.size(); ++i) {
      apply_override(document.tree, overrides[i], static_cast<int>(i) + 1);
    }
  } catch (const YamlProblem& problem) {
    fail(document.sources, problem);
  }
  Diagnostics diagnostics(document.sources);
  fix_parameters(document.tree, diagnostics);
  diagnostics.throw_if_any();
  return document;
}

std::vector<std::string*> paths_of(Recipe& recipe) {
  std::vector<std::string*> paths = {&recipe.data.path, &recipe.surrogate.prior,
                                     &recipe.surrogate.network};
  for (std::string& path : recipe.warm_start) {
    if (path != kRelatedStudies) paths.push_back(&path);
  }
  if (recipe.command) paths.push_back(&recipe.command->directory);
  return paths;
}

Recipe read_recipe(const Document& document) {
  Diagnostics diagnostics(document.sources);
  Recipe recipe = read_sections(document.tree, document, diagnostics);
  recipe.space = read_space(document.tree, recipe, diagnostics);
  check_recipe(document.tree, recipe, diagnostics);
  check_idle_keys(document.tree, recipe, tuned_keys(recipe.space), diagnostics);
  diagnostics.throw_if_any();
  check_extremes(document, recipe.space, diagnostics);
  diagnostics.throw_if_any();
  recipe.points = read_points(document, recipe, diagnostics);
  diagnostics.throw_if_any();
  return recipe;
}

Recipe read_point(const Document& document, const SearchSpace& space,
                  const Point& point) {
  Diagnostics diagnostics(document.sources);
  YamlNode tree = document.tree;
  std::set<std::string> set_keys;
  for (const Parameter& parameter : space.parameters()) {
    const auto value = point.find(parameter.name);
    if (value == point.end() || parameter.key.empty()) continue;
    const Mark mark = mark_of_path(document.tree, "space." + parameter.name);
    if (!set_keys.insert(parameter.key).second) {
      diagnostics.add(mark, fmt::format("two parameters set {} at once (their "
                                        "conditions overlap)",
                                        parameter.key));
    }
    const std::string problem =
        set_path(tree, parameter.key, scalar_of(value->second, mark));
    if (!problem.empty()) diagnostics.add(mark, problem);
  }
  for (const char* key : {"space", "constraints", "warm_start", "points"}) {
    tree.erase(key);
  }
  Recipe recipe = read_sections(tree, document, diagnostics);
  if (recipe.command) recipe.space = space;
  check_recipe(tree, recipe, diagnostics);
  diagnostics.throw_if_any();
  return recipe;
}

YamlNode resolve(const Recipe& recipe) {
  std::set<std::string> left_out;
  for (const IdleKey& idle : idle_keys(recipe)) left_out.insert(idle.key);
  for (const Parameter& parameter : recipe.space.parameters()) {
    // Conditional parameters leave the base value for when they do not apply,
    // layers are never complete without theirs.
    const bool stays =
        !parameter.when.empty() || parameter.key.starts_with("model.layers.");
    if (!stays) left_out.insert(parameter.key);
  }
  YamlNode tree = YamlNode::map();
  Recipe copy = recipe;  // a Fields takes values that it could change
  Writer writer(tree, "", left_out);
  describe_recipe(writer, copy);
  write_space(tree, recipe.space);
  write_points(tree, recipe.points);
  write_expectations(tree, "require", recipe.objective.require);
  write_expectations(tree, "expect", recipe.expect);
  return tree;
}

}  // namespace dtune
