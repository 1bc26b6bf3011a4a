// A study in the words of Optuna, as its database and its journal hold them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtune/report/facts.h"

namespace dtune {

// TrialState of Optuna: its number in a journal and its name in a database.
struct OptunaState {
  int number = 0;
  const char* name = "";
};

struct OptunaParameter {
  std::string name;
  double value = 0;          // of choices the place among them
  std::string distribution;  // JSON, as distribution_to_json writes it
};

struct OptunaTrial {
  int64_t number = 0;  // 0, 1, ...
  OptunaState state;
  std::optional<double> value;
  std::string started;    // "2026-11-22 10:00:00.000000", UTC
  std::string completed;  // "" while it runs
  std::vector<OptunaParameter> parameters;
  std::vector<std::pair<int, double>> steps;      // may be NaN or infinite
  std::map<std::string, std::string> attributes;  // values are JSON
};

// The user attribute of an exported trial that says its TrialKind.
inline constexpr const char* kOptunaKind = "dtune:kind";

OptunaTrial optuna_trial(const Study& study, const Trial& trial);

// User attributes of the study; values are JSON.
std::map<std::string, std::string> optuna_attributes(const Study& study,
                                                     const StudyFacts& facts);

}  // namespace dtune
