// Processes of training that die at bad moments, with the real program.
#include <algorithm>
#include <csignal>
#include <set>

#include "app/history.h"
#include "app/preload.h"
#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr const char* kGangNetwork =
    "study: tiny\n"
    "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 1500 }\n"
    "model: { arch: cnn-small, width: 4 }\n"
    "sampler: sobol\n"
    "scheduler: fifo\n"
    "budget: { trials: 1 }\n"
    "limits: { retries: 9, heartbeat: 300ms, lease: 3s }\n";

std::set<pid_t> workers(const Workplace& place) {
  std::set<pid_t> found;
  for (std::string line : place.orphans(/*patience_ms=*/0)) {
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (contains(line, "dtune worker ")) found.insert(std::stoi(line));
  }
  return found;
}

void check_whole(const Workplace& place, const Outcome& outcome) {
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(place.orphans().empty());
  for (const std::string& problem :
       contradictions(place / "tiny.db", place / "events.json")) {
    FAIL_CHECK(problem);
  }
}

void check_finished(const Workplace& place, const Outcome& outcome) {
  check_whole(place, outcome);
  CHECK(place.has("tiny.files/model.safetensors"));
}

}  // namespace

TEST_CASE("a worker that dies while it replaces a checkpoint costs a step") {
  if (preload().empty()) return skip(kNoPreload);
  for (const char* moment : {"before checkpoints/", "after checkpoints/"}) {
    CAPTURE(std::string(moment));
    Workplace place;
    place.write("tiny.yaml",
                fmt::format("{}train: {{ epochs: 3, batch_size: 32 }}\n"
                            "slots: 1\n",
                            kGangNetwork));
    place.write("moment", moment);
    place.environment["LD_PRELOAD"] = preload();
    place.environment["DTUNE_TEST_RENAME"] = (place / "moment").string();
    const Outcome outcome =
        place.run({"run", "tiny.yaml", "--verbose", "--events", "events.json"});
    CHECK_FALSE(place.has("moment"));  // it was killed
    check_finished(place, outcome);
  }
}

// Workers and parameter server in turn.
TEST_CASE("each process of a parameter server's gang may be killed") {
  Workplace place;
  place.write("tiny.yaml",
              fmt::format("{}train: {{ epochs: 60, batch_size: 16 }}\n"
                          "parallel: {{ mode: data, ranks: 2, sync: ps }}\n"
                          "slots: 3\n"
                          "final: false\n",
                          kGangNetwork));
  RunningProgram program =
      place.start({"run", "tiny.yaml", "--verbose", "--events", "events.json"});
  REQUIRE(program.wait_for("step 1/60"));
  const std::set<pid_t> first = workers(place);
  CHECK(first.size() == 3);
  int step = 2;
  for (const pid_t pid : first) {
    ::kill(pid, SIGKILL);
    if (!program.wait_for(fmt::format("step {}/60", step++))) break;
  }
  check_whole(place, program.wait());
  CHECK(step == 5);
}

// Of each rank in turn: to the other one and to the gang's server.
TEST_CASE("a gang whose connections are cut goes on") {
  Workplace place;
  place.write("tiny.yaml",
              fmt::format("{}train: {{ epochs: 5, batch_size: 32 }}\n"
                          "parallel: {{ mode: data, ranks: 2 }}\n"
                          "slots: 2\n",
                          kGangNetwork));
  RunningProgram program =
      place.start({"run", "tiny.yaml", "--verbose", "--events", "events.json"});
  REQUIRE(program.wait_for("step 1/5"));
  int cut = 0;
  for (const pid_t pid : workers(place)) cut += shut_connections(pid);
  CHECK(cut > 0);
  check_finished(place, program.wait());
}
