// What dtune printed as JSON.
#pragma once

#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace dtune {

// Fails the test where stdout holds none.
inline nlohmann::json json_of(const Outcome& outcome) {
  REQUIRE_MESSAGE(nlohmann::json::accept(outcome.out), outcome.err);
  return nlohmann::json::parse(outcome.out);
}

}  // namespace dtune
