// Real studies under fire (campaign.h). After each of them the history has to be
// whole (history.h), no process and no temporary file may be left, and the model
// has to be there.
//
//   DTUNE_FAULTS=200 DTUNE_SEED=7 build/tests/app_test --test-case='*faults*'
//
// With more than ten faults the studies are of all kinds, one after the other.
// DTUNE_RECIPE=FILE: all are of this recipe.
#include "app/campaign.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "app/history.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string kind_of(int study, int wanted) {
  if (const char* recipe = std::getenv("DTUNE_RECIPE")) return recipe;
  const auto kinds = campaign_kinds();
  return wanted <= 10 ? kinds[0] : kinds[size_t(study) % kinds.size()];
}

}  // namespace

TEST_CASE("a study under faults loses nothing and ends as it should") {
  const auto wanted = static_cast<int>(from_environment("DTUNE_FAULTS", 10));
  const uint64_t seed = from_environment("DTUNE_SEED", 15);
  std::map<std::string, int> faults;
  int studies = 0;
  for (int done = 0; done < wanted; ++studies) {
    const std::string kind = kind_of(studies, wanted);
    CAPTURE(seed);
    CAPTURE(studies);
    CAPTURE(kind);
    Campaign campaign(kind, mix_seed({seed, uint64_t(studies)}));
    done += std::max(1, campaign.run(std::min(10, wanted - done)));
    for (const std::string& problem : campaign.problems()) FAIL_CHECK(problem);
    for (const auto& [what, count] : campaign.faults()) faults[what] += count;
  }
  if (wanted <= 10) return;
  for (const auto& [kind, count] : faults) {
    MESSAGE(fmt::format("{:5}  {}", count, kind));
  }
  MESSAGE(fmt::format("{:5}  studies", studies));
}

TEST_CASE("a history with a gap, a repeat or a lost line is not whole") {
  const Workplace place;
  place.write("shell.yaml", shell_recipe(3, 3, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet", "--events", "events.json"})
              .code == 0);
  const auto problems = [&](const std::string& sql) {
    fs::copy_file(place / "shell.db", place / "copy.db",
                  fs::copy_options::overwrite_existing);
    edit_database(place / "copy.db", sql);
    return contradictions(place / "copy.db", place / "events.json").size();
  };
  CHECK(problems("SELECT 1") == 0);
  CHECK(problems("DELETE FROM report WHERE step = 2 AND trial = 1") > 0);
  CHECK(problems("DELETE FROM report WHERE step = 3 AND trial = 1") > 0);
  CHECK(problems("UPDATE report SET metrics = '{}'") > 0);
  CHECK(problems("UPDATE report SET sequence = 1") > 0);
  CHECK(problems("DELETE FROM decision WHERE number = 2") > 0);
  CHECK(problems("UPDATE study SET budget_trials = 2") > 0);
  CHECK(problems("INSERT INTO event (trial, attempt, state, reason, detail, "
                 "wall_ms) VALUES (1, 9, 'running', '', '', 0)") > 0);
  CHECK(problems("INSERT INTO event (trial, attempt, state, reason, detail, "
                 "wall_ms) VALUES (2, 1, 'running', 'resumed', '', 0)") > 0);
}
