// Why a trial of Optuna is without a parameter, from the trials alone.
#include "dtune/report/optuna_conditions.h"

#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace dtune {
namespace {

const std::vector<OptunaCause> kCauses = {{"layers", false},
                                          {"opt-kind", true}};

std::string condition(const std::vector<OptunaPoint>& points) {
  return find_optuna_condition("x", kCauses, points);
}

}  // namespace

TEST_CASE("a choice explains a parameter before a number does") {
  CHECK(condition({{{"layers", 3}, {"opt-kind", "a"}, {"x", 1}},
                   {{"layers", 2}, {"opt-kind", "b"}}}) == "`opt-kind` == 'a'");
}

TEST_CASE("a number explains a parameter from or up to a value") {
  CHECK(condition({{{"layers", 3}, {"opt-kind", "a"}, {"x", 1}},
                   {{"layers", 4}, {"opt-kind", "a"}, {"x", 1}},
                   {{"layers", 1}, {"opt-kind", "a"}}}) == "layers >= 3");
  CHECK(condition({{{"layers", 3}, {"opt-kind", "a"}},
                   {{"layers", 1}, {"opt-kind", "a"}, {"x", 1}}}) ==
        "layers <= 1");
}

TEST_CASE("what one trial contradicts is no condition") {
  CHECK(condition({{{"layers", 3}, {"opt-kind", "a"}, {"x", 1}},
                   {{"layers", 3}, {"opt-kind", "a"}}}) == "");
  // A parameter without the one that is to decide on it.
  CHECK(condition({{{"x", 1}}, {{"layers", 1}, {"opt-kind", "a"}}}) == "");
  CHECK(condition({{{"layers", 1}, {"x", 1}}}) == "");
  CHECK(condition({{{"layers", 1}}}) == "");
}

}  // namespace dtune
