#include "dtune/config/space_section.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/config/parameter.h"
#include "dtune/config/path.h"
#include "dtune/space/expression.h"

namespace dtune {
namespace {

struct CubeLine {
  const char* name;
  const char* key;
  double low;
  double high;
  bool log;
};

constexpr CubeLine kCube[] = {{"lr", "train.lr", 1e-4, 0.5, true},
                              {"l2", "train.l2", 1e-6, 1e-2, true},
                              {"dropout", "model.dropout", 0.0, 0.6, false}};

// The keys that always have a value of the space.
std::set<std::string> tuned_keys(const std::vector<Parameter>& parameters) {
  std::set<std::string> keys;
  for (const Parameter& one : parameters) {
    if (one.when.empty()) keys.insert(one.key);
  }
  return keys;
}

// Whether any dropout layer takes its rate from model.dropout.
bool has_open_dropout(const std::vector<LayerSpec>& layers,
                      const std::set<std::string>& tuned) {
  return std::any_of(
      layers.begin(), layers.end(), [&tuned](const LayerSpec& layer) {
        const bool open =
            layer.kind == LayerKind::dropout && layer.p == -1 &&
            !tuned.contains(fmt::format("model.layers.{}.p", layer.name));
        return open || has_open_dropout(layer.body, tuned) ||
               has_open_dropout(layer.shortcut, tuned);
      });
}

bool drops(const ModelSpec& model, const std::vector<Parameter>& parameters) {
  return model.layers.empty() ||
         has_open_dropout(model.layers, tuned_keys(parameters));
}

// Names that conditions and constraints read; those that do not parse are
// complained about later.
std::set<std::string> names_read(const YamlNode& recipe) {
  std::vector<std::string> texts;
  if (const YamlNode* constraints = recipe.find("constraints")) {
    for (const YamlNode& item : constraints->items) texts.push_back(item.text);
  }
  if (const YamlNode* space = recipe.find("space")) {
    for (const YamlNode& item : space->items) {
      if (const YamlNode* when = item.find("when")) texts.push_back(when->text);
    }
  }
  std::set<std::string> names;
  for (const std::string& text : texts) {
    try {
      const auto expression = Expression::parse(text);
      names.insert(expression->names().begin(), expression->names().end());
    } catch (const Error&) {
      continue;
    }
  }
  return names;
}

bool is_command(const YamlNode& recipe) {
  return recipe.find("command") != nullptr;
}

// Where the messages of SearchSpace ("space.lr: when: ...", "constraints[2]:
// ...") point to, and what is left of them.
struct Placed {
  Mark mark;
  std::string message;
  std::string parameter;  // or ""
  int constraint = -1;
};

Placed place(const YamlNode& recipe, const std::string& text) {
  Placed placed{
      .mark = mark_of_path(recipe, "space"), .message = text, .parameter = {}};
  const YamlNode* constraints = recipe.find("constraints");
  if (text.starts_with("constraints") && constraints != nullptr) {
    placed.mark = constraints->mark;
    int index = -1;
    if (std::sscanf(text.c_str(), "constraints[%d]", &index) == 1 &&
        index >= 0 && static_cast<size_t>(index) < constraints->items.size()) {
      placed.constraint = index;
      placed.mark = constraints->items[static_cast<size_t>(index)].mark;
    }
    return placed;
  }
  const YamlNode* space = recipe.find("space");
  if (space == nullptr) return placed;
  for (const YamlNode& item : space->items) {
    const std::string head = "space." + item.key + ": ";
    if (!text.starts_with(head)) continue;
    placed.parameter = item.key;
    const YamlNode* when = item.find("when");
    placed.mark = when != nullptr && text.starts_with(head + "when: ")
                      ? when->mark
                      : item.key_mark;
  }
  return placed;
}

// The space of all that is sound; what is not is reported and left out, so
// that one reading finds all mistakes.
SearchSpace make_space(const YamlNode& recipe,
                       std::vector<Parameter> parameters,
                       std::vector<std::string> constraints,
                       Diagnostics& diagnostics) {
  bool sound = true;
  std::vector<int> numbers;  // of the constraints left, as written
  for (size_t i = 0; i < constraints.size(); ++i) {
    numbers.push_back(static_cast<int>(i));
  }
  for (;;) {
    try {
      SearchSpace space(parameters, constraints);
      if (sound) space.check_satisfiable();
      return space;
    } catch (const Error& error) {
      Placed placed = place(recipe, error.what());
      sound = false;
      const auto guilty = std::find_if(
          parameters.begin(), parameters.end(),
          [&](const Parameter& one) { return one.name == placed.parameter; });
      const auto constraint = static_cast<size_t>(placed.constraint);
      if (placed.constraint >= 0 && constraint < constraints.size()) {
        const auto at = static_cast<std::ptrdiff_t>(constraint);
        const YamlNode& written =
            recipe.find("constraints")
                ->items.at(static_cast<size_t>(numbers[constraint]));
        diagnostics.add(written.mark, placed.message);
        constraints.erase(constraints.begin() + at);
        numbers.erase(numbers.begin() + at);
      } else {
        diagnostics.add(placed.mark, placed.message);
        if (guilty == parameters.end()) return {};
        if (guilty->when.empty()) return {};
        guilty->when.clear();
      }
    }
  }
}

std::vector<std::string> read_constraints(const YamlNode& recipe,
                                          Diagnostics& diagnostics) {
  const YamlNode* node = recipe.find("constraints");
  std::vector<std::string> texts;
  if (node == nullptr || node->is_null()) return texts;
  if (!node->is_list()) {
    diagnostics.add(node->mark, fmt::format("'constraints' must be a list such "
                                            "as [\"lr * 10 < 1\"], but is {}",
                                            describe_node(*node)));
    return texts;
  }
  for (const YamlNode& item : node->items) {
    if (!item.is_scalar()) {
      diagnostics.add(item.mark,
                      fmt::format("a constraint must be an expression such as "
                                  "\"lr * 10 < 1\", but is {}",
                                  describe_node(item)));
      return {};
    }
    texts.push_back(item.text);
  }
  return texts;
}

// A key set by two lines, or by a line and by a value elsewhere.
void check_twice(const YamlNode& recipe,
                 const std::vector<Parameter>& parameters,
                 Diagnostics& diagnostics) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& one = parameters[i];
    if (one.key.empty() || !one.when.empty()) continue;
    for (size_t k = 0; k < parameters.size(); ++k) {
      if (k == i || parameters[k].key != one.key) continue;
      diagnostics.add(
          mark_of_path(recipe, "space." + parameters[k].name),
          fmt::format("'{}' and '{}' both set {} (remove one, or give both a "
                      "when:)",
                      one.name, parameters[k].name, one.key));
    }
    const YamlNode* value = find_path(recipe, one.key);
    if (value == nullptr || one.key.starts_with("model.layers.")) continue;
    diagnostics.add(value->mark,
                    fmt::format("'{}' is tuned by space.{} (remove one; to fix "
                                "it write {}: {} in space)",
                                one.key, one.name, one.name, value->text));
  }
}

void add_cube(const YamlNode& recipe, const Recipe& described,
              std::vector<Parameter>& parameters) {
  std::vector<Parameter> cube;
  for (const CubeLine& line : kCube) {
    const bool taken = std::any_of(
        parameters.begin(), parameters.end(), [&](const Parameter& one) {
          return one.name == line.name || one.key == line.key;
        });
    if (taken || find_path(recipe, line.key) != nullptr) continue;
    if (line.name == std::string("dropout") &&
        !drops(described.model, parameters)) {
      continue;
    }
    Parameter parameter;
    parameter.name = line.name;
    parameter.key = line.key;
    parameter.low = line.low;
    parameter.high = line.high;
    parameter.log = line.log;
    cube.push_back(std::move(parameter));
  }
  parameters.insert(parameters.begin(), cube.begin(), cube.end());
}

void check_dropout(const YamlNode& recipe, const Recipe& described,
                   const std::vector<Parameter>& parameters,
                   Diagnostics& diagnostics) {
  // Studies of before had such a line beside a layer's own, of no effect.
  if (drops(described.model, {})) return;
  for (const Parameter& one : parameters) {
    if (one.key != "model.dropout") continue;
    diagnostics.add(mark_of_path(recipe, "space." + one.name),
                    "no layer takes its rate from model.dropout (add '- "
                    "dropout' to layers, or set a layer's own p: key: "
                    "model.layers.<name>.p)");
  }
}

// The line with one choice in place of its value.
YamlNode choice_of_one(const YamlNode& line, const YamlNode& value) {
  YamlNode list = YamlNode::list(value.mark);
  list.items.push_back(YamlNode::scalar(value.text, value.mark));
  list.items.back().quoted = value.quoted;
  YamlNode choice = line;
  if (!line.is_map()) choice = YamlNode::map(line.mark);
  choice.erase("value");
  choice.entry("choice", line.mark).set_value(list);
  return choice;
}

// Writes the value of a line to the key that it fixes.
void fix(YamlNode& recipe, const YamlNode& line, const YamlNode& value,
         const std::string& key, Diagnostics& diagnostics) {
  for (const YamlNode& item : line.items) {
    if (item.key == "value" || item.key == "key") continue;
    diagnostics.add(item.key_mark,
                    fmt::format("'{}' has a value, so '{}' has no effect "
                                "(remove one of them)",
                                line.key, item.key));
  }
  const bool of_layer = key.starts_with("model.layers.");
  if (!of_layer && find_path(recipe, key) != nullptr) {
    diagnostics.add(value.mark,
                    fmt::format("'{}' is given here and as '{}' (keep one)",
                                line.key, key));
    return;
  }
  const std::string problem = set_path(recipe, key, value);
  if (!problem.empty()) diagnostics.add(value.mark, problem);
}

}  // namespace

std::string default_key(const std::string& name) {
  for (const CubeLine& line : kCube) {
    if (name == line.name) return line.key;
  }
  return name.find('.') != std::string::npos ? name : "";
}

void fix_parameters(YamlNode& recipe, Diagnostics& diagnostics) {
  YamlNode* space = recipe.find("space");
  if (space == nullptr || !space->is_map()) return;
  const bool command = is_command(recipe);
  const std::set<std::string> read = names_read(recipe);
  const std::vector<YamlNode> lines = space->items;
  for (const YamlNode& line : lines) {
    const YamlNode* value = line.is_scalar() ? &line : line.find("value");
    if (value == nullptr || !value->is_scalar()) continue;
    if (command || read.contains(line.key)) {
      recipe.find("space")->find(line.key)->set_value(
          choice_of_one(line, *value));
      continue;
    }
    const YamlNode* written = line.find("key");
    const std::string key =
        resolve_key(recipe, line,
                    written != nullptr ? written->text : default_key(line.key),
                    diagnostics);
    recipe.find("space")->erase(line.key);
    if (!key.empty()) fix(recipe, line, *value, key, diagnostics);
  }
}

SearchSpace read_space(const YamlNode& recipe, const Recipe& described,
                       Diagnostics& diagnostics) {
  const YamlNode* space = recipe.find("space");
  std::vector<Parameter> parameters;
  const bool none =
      space != nullptr && space->is_scalar() && space->text == "none";
  if (space != nullptr && !none && !space->is_map() && !space->is_null()) {
    diagnostics.add(space->mark,
                    fmt::format("'space' must be a section such as lr: {{log: "
                                "[1e-4, 0.5]}}, or none, but is {}",
                                describe_node(*space)));
    return {};
  }
  const bool command = is_command(recipe);
  if (space != nullptr && space->is_map()) {
    for (const YamlNode& line : space->items) {
      const auto parameter = read_parameter(recipe, line, command, diagnostics);
      if (parameter) parameters.push_back(*parameter);
    }
  }
  if (!command) {
    check_twice(recipe, parameters, diagnostics);
    check_dropout(recipe, described, parameters, diagnostics);
    if (!none) add_cube(recipe, described, parameters);
  }
  const auto constraints = read_constraints(recipe, diagnostics);
  if (!diagnostics.empty()) {
    // Parameters that did not read would be missed by the conditions.
    const size_t lines =
        space != nullptr && space->is_map() ? space->items.size() : 0;
    if (parameters.size() < lines) return {};
  }
  return make_space(recipe, parameters, constraints, diagnostics);
}

void write_space(YamlNode& recipe, const SearchSpace& space) {
  if (space.dimensions() == 0) {
    recipe.entry("space").set_value(YamlNode::word("none"));
    return;
  }
  YamlNode section = YamlNode::map();
  for (const Parameter& parameter : space.parameters()) {
    section.entry(parameter.name).set_value(write_parameter(parameter));
  }
  recipe.entry("space").set_value(section);
  if (space.constraint_texts().empty()) return;
  YamlNode constraints = YamlNode::list();
  for (const std::string& text : space.constraint_texts()) {
    constraints.items.push_back(YamlNode::word(text));
  }
  recipe.entry("constraints").set_value(constraints);
}

}  // namespace dtune
