// A study's database on a disk of another machine, as the system says it is.
#include <csignal>
#include <memory>

#include "app/preload.h"
#include "app/program.h"
#include "app/small_disk.h"
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

// As Btrfs does: the kernel's table of locks has the number of the overlay,
// files that of the disk below.
TEST_CASE("a study is seen to run where files show another device") {
  Workplace place;
  const SmallDisk disk(place, "disk", "size=64m");
  for (const char* folder : {"disk/files", "disk/work", "below", "all"}) {
    std::filesystem::create_directories(place / folder);
  }
  const std::string options =
      "xino=off,lowerdir=" + (place / "below").string() +
      ",upperdir=" + (place / "disk/files").string() +
      ",workdir=" + (place / "disk/work").string();
  const std::string all = (place / "all").string();
  if (!disk.mounted() ||
      ::mount("overlay", all.c_str(), "overlay", 0, options.c_str()) != 0) {
    return skip("overlays need root");
  }
  const std::shared_ptr<void> mounted(
      nullptr, [&all](void*) { ::umount2(all.c_str(), MNT_DETACH); });
  place.write("all/shell.yaml", held_recipe(4, 3, "0.1", 2));
  place.write("all/hold", "");
  RunningProgram run = place.start({"run", "all/shell.yaml", "--verbose"});
  REQUIRE(run.wait_for("step 2/3"));
  const Outcome status = place.run({"status", "all/shell", "--json"});
  REQUIRE_MESSAGE(status.code == 0, status.err);
  CHECK(nlohmann::json::parse(status.out)["state"] == "running");
  run.send(SIGINT);
  CHECK(run.wait().code == 130);
  CHECK(nlohmann::json::parse(
            place.run({"status", "all/shell", "--json"}).out)["state"] ==
        "interrupted");
}
