// Optuna does not record why a trial is without a parameter: its space is what
// a program has asked for. The trials themselves show it.
#pragma once

#include <map>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dtune {

// The parameters that a trial has, by their names in the recipe, and their
// values as the recipe writes them: numbers, true, false and words.
using OptunaPoint = std::map<std::string, nlohmann::json>;

// A parameter that others may depend on.
struct OptunaCause {
  std::string name;
  bool choice = false;  // else whole numbers
};

// A condition ("opt == 'sgd'", "layers >= 3") that holds in exactly those
// points that have the parameter `name`: by the first of `causes` with which
// that agrees in all points, choices before whole numbers. "" where there is
// none, or where all points or none have it.
std::string find_optuna_condition(const std::string& name,
                                  std::span<const OptunaCause> causes,
                                  std::span<const OptunaPoint> points);

}  // namespace dtune
