// A study's database on a disk of another machine, as the system says it is.
#include <csignal>

#include "app/preload.h"
#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

TEST_CASE("on a network disk a study runs without a log shared in memory") {
  if (preload().empty()) return skip(kNoPreload);
  Workplace place;
  place.environment["LD_PRELOAD"] = preload();
  place.environment["DTUNE_TEST_NFS"] = "1";
  place.write("shell.yaml", held_recipe(4, 3, "0.1", 2));
  place.hold();
  RunningProgram run = place.start({"run", "shell.yaml", "--verbose"});
  REQUIRE(run.wait_for("step 2/3"));
  // Others read it meanwhile; there is no memory that they would have to share.
  const Outcome status = place.run({"status", "shell", "--json"});
  REQUIRE_MESSAGE(status.code == 0, status.err);
  CHECK(nlohmann::json::parse(status.out)["state"] == "running");
  CHECK_FALSE(place.has("shell.db-wal"));
  CHECK_FALSE(place.has("shell.db-shm"));
  run.send(SIGKILL);
  run.wait();
  place.release();
  const Outcome again = place.run({"run", "shell.yaml", "--quiet"});
  REQUIRE_MESSAGE(again.code == 0, again.err);
  CHECK(contains(again.out, "4 trials"));
  CHECK_FALSE(place.has("shell.db-wal"));
  // Back on a local disk it gets its log again.
  place.environment.erase("DTUNE_TEST_NFS");
  const Outcome more =
      place.run({"resume", "shell", "--trials", "+1", "--quiet"});
  REQUIRE_MESSAGE(more.code == 0, more.err);
  CHECK(contains(more.out, "5 trials"));
}
