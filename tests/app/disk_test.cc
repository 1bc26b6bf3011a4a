// A full disk: the study waits, says so once, and stops so that it can be
// resumed. Needs root, for a small file system of its own.
#include "app/program.h"
#include "app/small_disk.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr const char* kNeedsRoot = "mounting a small file system needs root";

constexpr const char* kDiskRecipe =
    "study: tiny\n"
    "data: { kind: synthetic, size: [12, 12], classes: 3, samples: 200 }\n"
    "model: { arch: cnn-small, width: 32 }\n"
    "train: { epochs: 30, batch_size: 32 }\n"
    "scheduler: fifo\n"
    "sampler: random\n"
    "budget: { trials: 1 }\n"
    "final: false\n"
    "slots: 1\n";

int occurrences(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

nlohmann::json disk_status(const Workplace& place) {
  return nlohmann::json::parse(
      place.run({"status", "disk/tiny.db", "--json"}).out);
}

}  // namespace

TEST_CASE("a disk that stays full ends the run with 75, and resume goes on") {
  Workplace place;
  const SmallDisk disk(place, "disk", "size=8m");
  if (!disk.mounted()) return skip(kNeedsRoot);
  place.write("tiny.yaml",
              std::string(kDiskRecipe) + "limits: { full_disk: 3s }\n");
  // What cannot be written is smaller than a checkpoint.
  disk.fill(400'000);
  const Outcome full =
      place.run({"run", "tiny.yaml", "--db", "disk/tiny.db", "--quiet"});
  CHECK_MESSAGE(full.code == 75, full.err);
  CHECK_MESSAGE(occurrences(full.err, "waiting for up to 3s") == 1, full.err);
  CHECK(contains(full.err, "`dtune resume` goes on from here"));
  CHECK(contains(full.out, "dtune resume disk/tiny.db"));
  const auto before = disk_status(place);
  CHECK(before["state"] == "interrupted");
  // The step was neither trained again nor taken for a failure.
  CHECK(before["list"][0]["attempt"] == 1);
  CHECK(before["list"][0]["failures"] == 0);
  disk.make_room();
  const Outcome resumed = place.run({"resume", "disk/tiny.db", "--quiet"});
  CHECK_MESSAGE(resumed.code == 0, resumed.err);
  const auto after = disk_status(place);
  CHECK(after["state"] == "finished");
  CHECK(after["list"][0]["step"] == 30);
  CHECK(place.orphans().empty());
}

TEST_CASE("a result that a full disk kept from the database is not shown") {
  Workplace place;
  const SmallDisk disk(place, "disk", "size=2m");
  if (!disk.mounted()) return skip(kNeedsRoot);
  place.write("tiny.yaml",
              "study: tiny\n"
              "command: [sh, -c, 'while ! test -e go; do sleep 0.1; done; echo "
              "loss=0.25']\n"
              "space: { x: { linear: [0, 1] } }\n"
              "objective: loss\n"
              "budget: { trials: 1 }\n"
              "slots: 1\n"
              "limits: { full_disk: 2s }\n");
  RunningProgram program = place.start(
      {"run", "tiny.yaml", "--db", "disk/tiny.db", "--plain", "--verbose"});
  REQUIRE(program.wait_for("trial 1 running"));
  disk.fill(0);
  place.write("go", "");
  const Outcome outcome = program.wait();
  CHECK_MESSAGE(outcome.code == 75, outcome.out);
  CHECK_MESSAGE(contains(outcome.out, "best     none"), outcome.out);
  CHECK(disk_status(place)["best"].is_null());
  disk.make_room();
  const Outcome resumed = place.run({"resume", "disk/tiny.db", "--quiet"});
  CHECK_MESSAGE(resumed.code == 0, resumed.err);
  CHECK(contains(resumed.out, "0.2500"));
}

TEST_CASE("room that is made while a study waits lets it go on") {
  Workplace place;
  const SmallDisk disk(place, "disk", "size=8m");
  if (!disk.mounted()) return skip(kNeedsRoot);
  place.write("tiny.yaml", kDiskRecipe);
  disk.fill(400'000);
  RunningProgram program =
      place.start({"run", "tiny.yaml", "--db", "disk/tiny.db", "--plain",
                   "--events", "log.jsonl"});
  REQUIRE(program.wait_for("waiting for up to 10m"));
  disk.make_room();
  const Outcome outcome = program.wait();
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(occurrences(outcome.out, "waiting for up to") == 1);
  CHECK(occurrences(outcome.out, "going on") == 1);
  const auto status = disk_status(place);
  CHECK(status["list"][0]["attempt"] == 1);
  CHECK(occurrences(place.read("log.jsonl"), "\"event\":\"report\"") == 30);
  CHECK(place.orphans().empty());
}
