// Studies of a shell command that start from what others found.
#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

// old.db: a finished study; new.yaml: the same with a warm start.
void prepare(const Workplace& place, const std::string& more = "") {
  place.write("old.yaml", shell_recipe(12, 3, "0") + "sampler: sobol\n");
  const Outcome old = place.run({"run", "old.yaml", "--quiet"});
  REQUIRE_MESSAGE(old.code == 0, old.err);
  place.write("new.yaml",
              shell_recipe(5, 3, "0") + "warm_start: [old.db]\n" + more);
}

nlohmann::json document(const Outcome& outcome) {
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  return nlohmann::json::parse(outcome.out);
}

}  // namespace

TEST_CASE("a warm start begins where the old study was best, and is replayed") {
  Workplace place;
  prepare(place);
  const auto old = document(place.run({"best", "old.db", "--json"}));
  const Outcome outcome = place.run({"run", "new.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Outcome first = place.run({"explain", "new.db", "1"});
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(contains(first.out, "among the best points of the warm start"));
  const auto found = document(place.run({"best", "new.db", "--json"}));
  CHECK(found["value"].get<double>() >= old["value"].get<double>() - 0.01);
  const Outcome replay = place.run({"replay", "new.db"});
  CHECK_MESSAGE(replay.code == 0, (replay.out + replay.err));
  CHECK(place.run({"status", "new.db"}).code == 0);
}

TEST_CASE("a warm start whose file is gone says so") {
  Workplace place;
  prepare(place);
  std::filesystem::rename(place / "old.db", place / "moved.db");
  const Outcome outcome = place.run({"run", "new.yaml", "--quiet"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "old.db: there is no such database (correct"));
  CHECK_FALSE(place.has("new.db"));
}

TEST_CASE("a warm start from another kind of study is refused") {
  Workplace place;
  std::string words;
  SUBCASE("another metric") {
    prepare(place, "objective: val_loss\n");
    words = "its objective is to maximize val_accuracy";
  }
  SUBCASE("a tuner that cannot use it") {
    prepare(place, "sampler: tpe\nscheduler: median\n");
    words = "has no effect with sampler tpe and scheduler median";
  }
  SUBCASE("no study at all") {
    prepare(place);
    place.write("old.db", "something else");
    words = "old.db";
  }
  const Outcome outcome = place.run({"run", "new.yaml", "--quiet"});
  CHECK(outcome.code != 0);
  CHECK(outcome.code != -1);
  CHECK_MESSAGE(contains(outcome.err, words), outcome.err);
}
