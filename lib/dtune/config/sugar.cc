#include "dtune/config/sugar.h"

#include <array>

#include <fmt/format.h>

#include "dtune/config/layer_list.h"

namespace dtune {
namespace {

// Keys at the top that stand for one of a section.
struct MovedKey {
  const char* name;
  const char* section;
};
constexpr std::array<MovedKey, 2> kMovedKeys = {
    {{"slots", "resources"}, {"layers", "model"}}};

// `value` becomes {key: value}.
void wrap(YamlNode& value, const std::string& key) {
  YamlNode map = YamlNode::map(value.mark);
  map.entry(key, value.mark).set_value(value);
  value.set_value(map);
}

void wrap_scalar(YamlNode* value, const std::string& key) {
  if (value != nullptr && value->is_scalar()) wrap(*value, key);
}

// `slots` -> resources.slots.
void move_to_section(YamlNode& recipe, const MovedKey& key) {
  const auto& [name, section] = key;
  const YamlNode* found = recipe.find(name);
  if (found == nullptr) return;
  const YamlNode value = *found;
  YamlNode& home = recipe.entry(section, value.key_mark);
  if (!home.is_map() && !home.is_null()) return;
  if (home.find(name) != nullptr) {
    throw YamlProblem{value.key_mark,
                      fmt::format("'{}' is given here and as '{}.{}' (keep "
                                  "one)",
                                  name, section, name)};
  }
  home.entry(name, value.key_mark).set_value(value);
  recipe.erase(name);
}

// [flip, shift: 2], flip or none -> {flip: true, shift: 2}.
void expand_augment(YamlNode& augment) {
  if (augment.is_scalar()) {
    if (augment.text == "none") {
      augment.set_value(YamlNode::map(augment.mark));
      return;
    }
    YamlNode list = YamlNode::list(augment.mark);
    list.items.push_back(augment);
    augment.set_value(list);
  }
  if (!augment.is_list()) return;
  YamlNode map = YamlNode::map(augment.mark);
  for (const YamlNode& item : augment.items) {
    if (item.is_scalar()) {
      map.entry(item.text, item.mark)
          .set_value(YamlNode::scalar("true", item.mark));
    } else if (item.is_map()) {
      for (const YamlNode& one : item.items) {
        map.entry(one.key, one.key_mark).set_value(one);
      }
    } else {
      return;
    }
  }
  augment.set_value(map);
}

void expand_data_section(YamlNode& recipe) {
  YamlNode* data = recipe.find("data");
  if (data == nullptr) return;
  wrap_scalar(data, "kind");
  if (YamlNode* size = data->find("size"); size && size->is_scalar()) {
    YamlNode square = YamlNode::list(size->mark);
    square.items = {*size, *size};
    size->set_value(square);
  }
  if (YamlNode* augment = data->find("augment")) expand_augment(*augment);
}

void expand_model_section(YamlNode& recipe) {
  YamlNode* model = recipe.find("model");
  if (model == nullptr) return;
  wrap_scalar(model, "arch");
  if (model->is_list()) wrap(*model, "layers");
  if (YamlNode* layers = model->find("layers")) expand_layers(*layers);
}

void expand_warm_start(YamlNode& recipe) {
  YamlNode* studies = recipe.find("warm_start");
  if (studies == nullptr || !studies->is_scalar() ||
      studies->text != kRelatedStudies) {
    return;
  }
  YamlNode list = YamlNode::list(studies->mark);
  list.items.push_back(*studies);
  studies->set_value(list);
}

void expand_train_section(YamlNode& recipe) {
  YamlNode* train = recipe.find("train");
  if (train == nullptr) return;
  wrap_scalar(train->find("schedule"), "kind");
  if (YamlNode* step = train->find("step"); step && step->is_scalar()) {
    if (step->text == "epoch") {
      step->set_value(YamlNode::scalar("0", step->mark));
    }
    wrap(*step, "samples");
  }
}

void expand_command_section(YamlNode& recipe) {
  YamlNode* command = recipe.find("command");
  if (command == nullptr) return;
  if (command->is_scalar() || command->is_list()) wrap(*command, "run");
  YamlNode* run = command->find("run");
  if (run == nullptr || !run->is_scalar()) return;
  YamlNode list = YamlNode::list(run->mark);
  for (std::string& word : split_command(run->text, run->mark)) {
    list.items.push_back(YamlNode::word(std::move(word), run->mark));
  }
  run->set_value(list);
}

void expand_space_section(YamlNode& recipe) {
  YamlNode* space = recipe.find("space");
  if (space == nullptr || !space->is_scalar()) return;
  if (space->text != "none" && space->text != "false") return;
  space->set_value(YamlNode::word("none", space->mark));
}

void expand_constraints(YamlNode& recipe) {
  YamlNode* constraints = recipe.find("constraints");
  if (constraints == nullptr || !constraints->is_scalar()) return;
  YamlNode list = YamlNode::list(constraints->mark);
  list.items.push_back(*constraints);
  constraints->set_value(list);
}

}  // namespace

void expand_short_forms(YamlNode& recipe) {
  if (!recipe.is_map()) return;
  for (const MovedKey& key : kMovedKeys) move_to_section(recipe, key);
  expand_data_section(recipe);
  expand_model_section(recipe);
  expand_train_section(recipe);
  expand_command_section(recipe);
  expand_warm_start(recipe);
  wrap_scalar(recipe.find("objective"), "metric");
  wrap_scalar(recipe.find("sampler"), "kind");
  wrap_scalar(recipe.find("scheduler"), "kind");
  wrap_scalar(recipe.find("fidelity"), "kind");
  wrap_scalar(recipe.find("final"), "enabled");
  expand_space_section(recipe);
  expand_constraints(recipe);
}

std::string long_key(const std::string& key) {
  for (const auto& [name, section] : kMovedKeys) {
    if (key == name || key.starts_with(std::string(name) + ".")) {
      return std::string(section) + "." + key;
    }
  }
  return key;
}

std::vector<std::string> split_command(const std::string& line,
                                       const Mark& at) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;  // a word has begun, be it empty
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (quote == 0 && blank) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
      continue;
    }
    open = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      word += line[++i];
    } else {
      word += c;
    }
  }
  if (quote != 0) {
    throw YamlProblem{at, fmt::format("the command's {} is not closed", quote)};
  }
  if (open) words.push_back(std::move(word));
  return words;
}

}  // namespace dtune
