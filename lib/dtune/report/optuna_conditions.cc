#include "dtune/report/optuna_conditions.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"

namespace dtune {
namespace {

using Values = std::set<nlohmann::json>;

// The values of another parameter, where the one in question is and is not.
struct Split {
  Values with;
  Values without;
  // The one in question is where the other is not: it cannot depend on it.
  bool apart = false;
};

Split split_by(const std::string& other, const std::string& name,
               std::span<const OptunaPoint> points) {
  Split split;
  for (const OptunaPoint& point : points) {
    const bool has = point.contains(name);
    const auto value = point.find(other);
    if (value != point.end()) {
      (has ? split.with : split.without).insert(value->second);
    } else {
      split.apart = split.apart || has;
    }
  }
  return split;
}

std::string name_in_condition(const std::string& name) {
  return name.find('-') == std::string::npos ? name : '`' + name + '`';
}

// As conditions write it; "" of a word with both kinds of quotes.
std::string value_in_condition(const nlohmann::json& value) {
  if (!value.is_string()) return json_text(value);
  const auto word = value.get<std::string>();
  for (const char quote : {'\'', '"'}) {
    if (word.find(quote) == std::string::npos) return quote + word + quote;
  }
  return "";
}

// "opt == 'sgd'", "opt in ['sgd', 'rmsprop']"
std::string by_choice(const std::string& other, const Split& split) {
  std::vector<std::string> words;
  for (const nlohmann::json& value : split.with) {
    if (split.without.contains(value)) return "";
    words.push_back(value_in_condition(value));
    if (words.back().empty()) return "";
  }
  const std::string left = name_in_condition(other);
  if (words.size() == 1) return fmt::format("{} == {}", left, words[0]);
  return fmt::format("{} in [{}]", left, fmt::join(words, ", "));
}

// "layers >= 3": what programs with a loop ask for.
std::string by_number(const std::string& other, const Split& split) {
  const nlohmann::json& least = *split.with.begin();
  const nlohmann::json& most = *split.with.rbegin();
  const std::string left = name_in_condition(other);
  if (*split.without.rbegin() < least) {
    return fmt::format("{} >= {}", left, json_text(least));
  }
  if (most < *split.without.begin()) {
    return fmt::format("{} <= {}", left, json_text(most));
  }
  return "";
}

}  // namespace

std::string find_optuna_condition(const std::string& name,
                                  std::span<const OptunaCause> causes,
                                  std::span<const OptunaPoint> points) {
  const auto having = std::ranges::count_if(
      points, [&](const OptunaPoint& point) { return point.contains(name); });
  if (having == 0 || having == std::ssize(points)) return "";
  std::string by_a_number;
  for (const OptunaCause& cause : causes) {
    const Split split = split_by(cause.name, name, points);
    if (split.apart || split.without.empty()) continue;
    std::string condition = cause.choice ? by_choice(cause.name, split)
                                         : by_number(cause.name, split);
    if (condition.empty()) continue;
    if (cause.choice) return condition;
    if (by_a_number.empty()) by_a_number = condition;
  }
  return by_a_number;
}

}  // namespace dtune
