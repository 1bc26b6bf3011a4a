// Real studies under fire (campaign.h). After each of them the history has to
// be whole (history.h), no process and no temporary file may be left, and the
// model has to be there.
//
// With more than ten faults (tests/campaign) the studies are of all kinds, one
// after the other, and the seed is another one each time.
#include "app/campaign.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include "app/history.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

// Of each kind of fault, by kind of study.
using Tally = std::map<std::string, std::map<std::string, int>>;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<std::string> kinds_of(int wanted) {
  if (const char* recipe = std::getenv("DTUNE_RECIPE")) return {recipe};
  if (const char* names = std::getenv("DTUNE_KIND")) {
    std::vector<std::string> kinds;
    std::istringstream in(names);
    for (std::string kind; std::getline(in, kind, ',');) kinds.push_back(kind);
    return kinds;
  }
  return wanted <= 10 ? std::vector<std::string>{"command"} : campaign_kinds();
}

void print(const Tally& tally) {
  std::map<std::string, int> totals;
  for (const auto& [kind, counts] : tally) {
    for (const auto& [what, count] : counts) {
      MESSAGE(fmt::format("{:10} {:5}  {}", kind, count, what));
      totals[what] += count;
    }
  }
  for (const auto& [what, count] : totals) {
    MESSAGE(fmt::format("{:10} {:5}  {}", "all", count, what));
  }
}

}  // namespace

TEST_CASE("a study under faults loses nothing and ends as it should") {
  const auto wanted = static_cast<int>(from_environment("DTUNE_FAULTS", 10));
  const uint64_t seed = from_environment(
      "DTUNE_SEED", wanted <= 10 ? 15 : std::random_device{}());
  const auto kinds = kinds_of(wanted);
  Tally tally;
  int done = 0;
  for (int study = 0; done < wanted && study < wanted; ++study) {
    const std::string& kind = kinds[size_t(study) % kinds.size()];
    CAPTURE(seed);
    CAPTURE(study);
    CAPTURE(kind);
    Campaign campaign(kind, mix_seed({seed, uint64_t(study)}));
    try {
      campaign.run(std::min(10, wanted - done));
    } catch (const std::exception& error) {  // the other studies are run, too
      FAIL_CHECK(std::string(error.what()));
    }
    for (const std::string& problem : campaign.problems()) FAIL_CHECK(problem);
    done += campaign.fault_count();
    for (const auto& [what, count] : campaign.faults()) {
      tally[kind][what] += count;
    }
    ++tally[kind]["studies"];
    if (wanted > 10) {
      fmt::print(stderr, "seed {}, study {} ({}): {} faults so far\n", seed,
                 study, kind, done);
    }
  }
  if (wanted > 10) print(tally);
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
