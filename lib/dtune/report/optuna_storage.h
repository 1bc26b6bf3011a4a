// The studies of an Optuna storage, as its files hold them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/report/optuna_terms.h"

namespace dtune {

struct OptunaStudy {
  std::string name;
  std::string metric;                   // "" where Optuna was given no name
  std::vector<std::string> directions;  // "MINIMIZE", "MAXIMIZE", "NOT_SET"
  // By number; times are "", and of the attributes there is kOptunaKind alone.
  std::vector<OptunaTrial> trials;
};

// OptunaState of its number in a journal, or its name in a database. An unknown
// one is that of a failed trial.
OptunaState optuna_state(int64_t number);
OptunaState optuna_state(const std::string& name);

// All studies of an SQLite storage (schema 12, as Optuna 3 to 5 write it) or of
// a journal, in their order. Throws Error(data) where the file is neither, or
// damaged.
std::vector<OptunaStudy> read_optuna(const std::filesystem::path& path);

// The same of a journal's text; `name` stands in messages ("name:line:1").
std::vector<OptunaStudy> read_optuna_journal(const std::string& text,
                                             const std::string& name);

}  // namespace dtune
