#include "dtune/config/parameter.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/base/text.h"
#include "dtune/config/path.h"
#include "dtune/config/reader.h"
#include "dtune/config/schema.h"
#include "dtune/config/space_section.h"

namespace dtune {
namespace {

constexpr char kForms[] =
    "{log: [a, b]}, {linear: [a, b]}, {int: [a, b]}, {choice: [...]} or {bool: "
    "true}";

// What other programs call the forms.
struct ForeignForm {
  const char* name;
  const char* own;
};
constexpr ForeignForm kForeignForms[] = {
    {"uniform", "linear"},  {"range", "linear"},  {"loguniform", "log"},
    {"log_uniform", "log"}, {"randint", "int"},   {"integer", "int"},
    {"choices", "choice"},  {"values", "choice"}, {"categorical", "choice"}};

// Reads one line; `ok()` tells whether nothing was wrong.
class LineReader {
 public:
  LineReader(const YamlNode& line, Diagnostics& diagnostics)
      : line_(line),
        diagnostics_(diagnostics),
        fields_(line, "space." + line.key, diagnostics, kNoKeys) {}

  bool ok() const { return ok_; }

  void read_form(Parameter& parameter) {
    std::vector<const YamlNode*> forms;
    for (const char* key :
         {"float", "linear", "int", "log", "choice", "bool"}) {
      const YamlNode* found = fields_.take(key);
      const bool is_form = found != nullptr && !is_log_switch(*found);
      if (is_form) forms.push_back(found);
    }
    if (forms.empty() && complain_foreign_form()) return;
    if (forms.empty()) {
      complain(line_.mark, fmt::format("'{}' has no range (write one of {}, or "
                                       "a plain value to fix it)",
                                       line_.key, kForms));
    } else if (forms.size() > 1) {
      complain(forms[1]->key_mark,
               fmt::format("'{}' has both '{}' and '{}' (keep one)", line_.key,
                           forms[0]->key, forms[1]->key));
    } else {
      read_one_form(*forms[0], parameter);
    }
  }

  void read_rest(Parameter& parameter) {
    fields_.text("when", parameter.when);
    if (const YamlNode* prior = fields_.take("prior")) {
      if (prior->is_scalar()) {
        parameter.prior = scalar_value(*prior);
      } else {
        complain(prior->mark, "'prior' must be a value of this parameter");
      }
    }
    const bool has_confidence = fields_.has("confidence");
    auto confidence = static_cast<size_t>(parameter.confidence);
    fields_.word("confidence", confidence, {"low", "medium", "high"});
    parameter.confidence = static_cast<Confidence>(confidence);
    std::vector<std::string> roles;
    for (const auto role : {ParameterRole::none, ParameterRole::learning_rate,
                            ParameterRole::l2, ParameterRole::dropout}) {
      roles.emplace_back(to_string(role));
    }
    auto role = static_cast<size_t>(parameter.role);
    fields_.word("role", role, roles);
    parameter.role = static_cast<ParameterRole>(role);
    read_order(parameter);
    if (has_confidence && !parameter.prior) {
      complain(line_.find("confidence")->key_mark,
               "'confidence' needs a prior: the value that you expect to be "
               "best");
    }
  }

  void read_order(Parameter& parameter) {
    fields_.flag("ordered", parameter.ordered);
    if (parameter.ordered && parameter.kind != ParameterKind::categorical) {
      complain(line_.find("ordered")->key_mark,
               "'ordered' is for a choice (other parameters have an order)");
    }
  }

  const YamlNode* take(const std::string& key) { return fields_.take(key); }

  void finish() { fields_.finish(); }

  void reject() { ok_ = false; }

  void complain(const Mark& mark, const std::string& message) {
    diagnostics_.add(mark, message);
    ok_ = false;
  }

 private:
  static const std::vector<std::string> kNoKeys;

  bool complain_foreign_form() {
    for (const auto& [name, own] : kForeignForms) {
      const YamlNode* found = fields_.has(name) ? fields_.take(name) : nullptr;
      if (found == nullptr) continue;
      complain(found->key_mark, fmt::format("'{}' is called '{}' here (write "
                                            "one of {})",
                                            name, own, kForms));
      return true;
    }
    return false;
  }

  // `log: true` beside int or float, in contrast to log: [a, b].
  static bool is_log_switch(const YamlNode& node) {
    return node.key == "log" && node.is_scalar();
  }

  void read_one_form(const YamlNode& form, Parameter& parameter) {
    if (form.key == "choice") return read_choices(form, parameter);
    if (form.key == "bool") {
      parameter.kind = ParameterKind::boolean;
      if (!form.is_scalar() || form.text != "true") {
        complain(form.mark,
                 "'bool' must be true (it says that the parameter "
                 "is true or false)");
      }
      return;
    }
    parameter.kind =
        form.key == "int" ? ParameterKind::integer : ParameterKind::real;
    parameter.log = form.key == "log";
    read_bounds(form, parameter);
    const YamlNode* log = line_.find("log");
    if (log != nullptr && is_log_switch(*log)) {
      fields_.flag("log", parameter.log);
    }
    if (const YamlNode* step = fields_.take("step")) {
      const auto quantum = number_of(*step);
      if (!quantum || *quantum <= 0) {
        complain(step->mark,
                 fmt::format("'step' must be more than 0, but is {}",
                             describe_node(*step)));
      } else {
        parameter.quantum = *quantum;
      }
    }
  }

  static std::optional<double> number_of(const YamlNode& node) {
    if (!node.is_scalar()) return std::nullopt;
    const Value value = scalar_value(node);
    if (std::holds_alternative<bool>(value)) return std::nullopt;
    return as_number(value);
  }

  void read_bounds(const YamlNode& form, Parameter& parameter) {
    if (!form.is_list() || form.items.size() != 2) {
      complain(form.mark,
               fmt::format("'{}' must be a range [low, high], but is {}",
                           form.key, describe_node(form)));
      return;
    }
    double* bounds[] = {&parameter.low, &parameter.high};
    for (size_t i = 0; i < 2; ++i) {
      const YamlNode& item = form.items[i];
      const auto bound = number_of(item);
      const bool whole = parameter.kind == ParameterKind::integer;
      if (!bound || (whole && *bound != std::floor(*bound))) {
        complain(item.mark, fmt::format("a bound of '{}' must be a {}number, "
                                        "but is {}",
                                        form.key, whole ? "whole " : "finite ",
                                        describe_node(item)));
      } else {
        *bounds[i] = *bound;
      }
    }
  }

  void read_choices(const YamlNode& form, Parameter& parameter) {
    parameter.kind = ParameterKind::categorical;
    constexpr size_t kMaxChoices = 1000;
    if (!form.is_list() || form.items.empty() ||
        form.items.size() > kMaxChoices) {
      complain(form.mark,
               fmt::format("'choice' must be a list of 1 to {} values, but is "
                           "{}",
                           kMaxChoices,
                           form.is_list() && form.items.empty()
                               ? "empty"
                               : describe_node(form)));
      return;
    }
    for (const YamlNode& item : form.items) {
      if (!item.is_scalar()) {
        complain(item.mark, fmt::format("a choice must be a number or a word, "
                                        "but is {}",
                                        describe_node(item)));
        continue;
      }
      parameter.choices.push_back(scalar_value(item));
    }
  }

  const YamlNode& line_;
  Diagnostics& diagnostics_;
  Reader fields_;
  bool ok_ = true;
};

const std::vector<std::string> LineReader::kNoKeys;

// What the parameter's name probably means: a key that ends in it, or what
// other programs call so.
std::string likely_key(const std::string& name,
                       const std::vector<std::string>& keys) {
  const std::string elsewhere = key_elsewhere(name);
  for (const std::string& key : keys) {
    if (key.ends_with("." + name) || key == elsewhere) return key;
  }
  return "";
}

// What SearchSpace says of this parameter alone.
bool check_alone(const YamlNode& line, Parameter parameter,
                 Diagnostics& diagnostics) {
  parameter.when.clear();
  try {
    const SearchSpace alone({parameter});
    return true;
  } catch (const Error& error) {
    diagnostics.add(line.mark, error.what());
    return false;
  }
}

}  // namespace

std::string resolve_key(const YamlNode& recipe, const YamlNode& line,
                        const std::string& given, Diagnostics& diagnostics) {
  const std::vector<std::string> keys = tunable_keys(recipe);
  const YamlNode* written = line.find("key");
  const Mark& mark = written != nullptr ? written->mark : line.key_mark;
  if (given.empty()) {
    const std::string like = likely_key(line.key, keys);
    diagnostics.add(
        mark,
        fmt::format(
            "'{}' does not say which key of the recipe it sets (add key: {})",
            line.key,
            like.empty() ? "train.batch_size, or the "
                           "like"
                         : like));
    return "";
  }
  if (std::find(keys.begin(), keys.end(), given) != keys.end()) return given;
  const std::vector<std::string>& all = recipe_keys();
  if (std::find(all.begin(), all.end(), given) != all.end()) {
    diagnostics.add(
        mark,
        fmt::format("'{}' cannot be tuned (train.*, model.*, "
                    "data.augment.*, data.balance and data.normalize can, "
                    "but not train.epochs, train.step, train.device)",
                    given));
    return "";
  }
  std::string hint = did_you_mean(given, keys);
  if (hint.empty()) {
    const std::string like =
        likely_key(given.substr(given.rfind('.') + 1), keys);
    if (!like.empty()) hint = fmt::format(", did you mean '{}'?", like);
  }
  diagnostics.add(
      mark, fmt::format("'{}' is not a key of this recipe{}", given, hint));
  return "";
}

bool is_parameter_name(const std::string& name) {
  const auto first = static_cast<unsigned char>(name.empty() ? '0' : name[0]);
  return (std::isalpha(first) != 0 || first == '_') && !name.ends_with('.') &&
         is_plain(name, "_.-") && name.size() <= 100;
}

std::optional<Parameter> read_parameter(const YamlNode& recipe,
                                        const YamlNode& line, bool command,
                                        Diagnostics& diagnostics) {
  Parameter parameter;
  parameter.name = line.key;
  if (!is_parameter_name(line.key)) {
    diagnostics.add(
        line.key_mark,
        fmt::format("'{}' cannot name a parameter (1 to 100 "
                    "letters, digits, '_', '-' and '.'; a letter or '_' "
                    "first)",
                    line.key));
    return std::nullopt;
  }
  if (!line.is_map()) {
    diagnostics.add(line.mark,
                    fmt::format("'{}' must be one of {}, but is {}", line.key,
                                kForms, describe_node(line)));
    return std::nullopt;
  }
  LineReader reader(line, diagnostics);
  const YamlNode* key = reader.take("key");
  if (command && key != nullptr) {
    reader.complain(key->key_mark,
                    "a command's parameters go to the program, "
                    "not to a key (remove 'key')");
  } else if (!command) {
    const bool word = key != nullptr && key->is_scalar();
    parameter.key = resolve_key(
        recipe, line, word ? key->text : default_key(line.key), diagnostics);
    if (parameter.key.empty()) reader.reject();
  }
  reader.read_form(parameter);
  reader.read_rest(parameter);
  reader.finish();
  if (!reader.ok() || !check_alone(line, parameter, diagnostics)) {
    return std::nullopt;
  }
  return parameter;
}

YamlNode write_parameter(const Parameter& parameter) {
  YamlNode node = YamlNode::map();
  const auto put = [&](const char* key, const YamlNode& value) {
    node.entry(key).set_value(value);
  };
  const auto number = [](double value) {
    return YamlNode::scalar(to_string(Value(value)));
  };
  if (!parameter.key.empty()) put("key", YamlNode::word(parameter.key));
  YamlNode list = YamlNode::list();
  switch (parameter.kind) {
    case ParameterKind::real:
    case ParameterKind::integer:
      list.items = {number(parameter.low), number(parameter.high)};
      put(parameter.kind == ParameterKind::real ? "float" : "int", list);
      if (parameter.log) put("log", scalar_of(true));
      if (parameter.quantum > 0) put("step", number(parameter.quantum));
      break;
    case ParameterKind::categorical:
      for (const Value& value : parameter.choices) {
        list.items.push_back(scalar_of(value));
      }
      put("choice", list);
      break;
    case ParameterKind::boolean:
      put("bool", scalar_of(true));
      break;
  }
  if (parameter.ordered) put("ordered", scalar_of(true));
  if (parameter.role != ParameterRole::none) {
    put("role", YamlNode::word(to_string(parameter.role)));
  }
  if (!parameter.when.empty()) put("when", YamlNode::word(parameter.when));
  if (parameter.prior) {
    put("prior", scalar_of(*parameter.prior));
    constexpr const char* kWords[] = {"low", "medium", "high"};
    put("confidence",
        YamlNode::word(kWords[static_cast<size_t>(parameter.confidence)]));
  }
  return node;
}

}  // namespace dtune
