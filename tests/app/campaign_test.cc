// Real studies whose processes are killed, stopped and started at random
// moments. After each study the history has to be whole (history.h), no process
// and no temporary file may be left, and the result has to be there.
//
//   DTUNE_FAULTS=200 DTUNE_SEED=7 build/tests/app_test --test-case='*faults*'
//
// DTUNE_RECIPE=FILE: of this recipe instead of the program below.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "app/history.h"
#include "app/program.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kScript =
    "s=0; [ -e $DTUNE_CHECKPOINT ] && s=$(cat $DTUNE_CHECKPOINT)\n"
    "setsid sleep 1000 &\n"
    "while [ $s -lt 8 ]; do\n"
    "  sleep 0.02; s=$((s + 1))\n"
    "  echo $s > $DTUNE_CHECKPOINT.$$\n"
    "  mv $DTUNE_CHECKPOINT.$$ $DTUNE_CHECKPOINT\n"
    "  echo step=$s val_accuracy=0.$s$DTUNE_TRIAL\n"
    "done\n";

constexpr const char* kRecipe =
    "study: campaign\n"
    "command: { run: [sh, script.sh], steps: 8 }\n"
    "space: { x: { log: [0.01, 1] } }\n"
    "objective: val_accuracy\n"
    "sampler: sobol\n"
    "scheduler: asha\n"
    "budget: { trials: 24 }\n"
    "limits: { retries: 1000, heartbeat: 300ms, lease: 3s, grace: 500ms }\n"
    "slots: 2\n";

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Process {
  pid_t pid = 0;
  std::string role;  // coordinator, agent, worker, guard, program
};

std::string role_of(const std::string& line) {
  for (const char* role : {"agent", "worker", "guard"}) {
    if (contains(line, fmt::format("dtune {} ", role))) return role;
  }
  return contains(line, "--events") ? "coordinator" : "program";
}

std::vector<Process> processes(const Workplace& place) {
  std::vector<Process> found;
  for (std::string line : place.orphans(0)) {
    std::replace(line.begin(), line.end(), '\0', ' ');
    found.push_back({std::stoi(line), role_of(line)});
  }
  return found;
}

// One study under fire.
class Campaign {
 public:
  explicit Campaign(uint64_t seed) : rng_(seed) {
    const char* recipe = std::getenv("DTUNE_RECIPE");
    place.write("script.sh", kScript);
    place.write("campaign.yaml", kRecipe);
    if (recipe != nullptr) {
      fs::copy_file(recipe, place / "campaign.yaml",
                    fs::copy_options::overwrite_existing);
    }
  }

  // Faults until there were `most`, or the study is over: how many there were.
  int run(int most) {
    int done = 0;
    while (true) {
      RunningProgram program =
          place.start({fs::exists(place / "campaign.db") ? "resume" : "run",
                       "campaign.yaml", "--quiet", "--events", "events.json"});
      bool alive = true;
      while (alive && done < most) {
        std::this_thread::sleep_for(milliseconds(50 + rng_.below(500)));
        if (over()) break;
        alive = strike(program);
        ++done;
      }
      const Outcome outcome = program.wait();
      if (alive) {
        CHECK_MESSAGE(outcome.code == 0, outcome.err);
        return done;
      }
    }
  }

  Workplace place;
  std::map<std::string, int> faults;

 private:
  bool over() const {
    const Outcome status = place.run({"status", "campaign.db", "--json"});
    if (status.code != 0) return false;  // it has just begun
    return nlohmann::json::parse(status.out)["state"] == "finished";
  }

  // False: the coordinator was the target.
  bool strike(const RunningProgram& program) {
    const auto all = processes(place);
    switch (rng_.below(8)) {
      case 0:
        ++faults["kill -9 of all"];
        for (const Process& one : all) ::kill(one.pid, SIGKILL);
        return false;
      case 1:
        ++faults["kill -9 of the coordinator"];
        program.send(SIGKILL);
        return false;
      case 2:
        ++faults["interruption"];
        program.send(SIGINT);
        return false;
      case 3:
        return pause(all, {"coordinator", "agent", "worker"});
      case 4:
        return kill_one(all, "agent");
      case 5:
        return kill_one(all, "program");
      default:
        return kill_one(all, "worker");
    }
  }

  bool kill_one(const std::vector<Process>& all, const std::string& role) {
    if (const Process* one = pick(all, {role})) {
      ++faults["kill -9 of a " + role];
      ::kill(one->pid, SIGKILL);
    }
    return true;
  }

  // For less than a lease, and for more.
  bool pause(const std::vector<Process>& all,
             const std::vector<std::string>& roles) {
    if (const Process* one = pick(all, roles)) {
      ++faults["stop of a " + one->role];
      ::kill(one->pid, SIGSTOP);
      std::this_thread::sleep_for(
          milliseconds(rng_.below(4) == 0 ? 4000 : 300));
      ::kill(one->pid, SIGCONT);
    }
    return true;
  }

  const Process* pick(const std::vector<Process>& all,
                      const std::vector<std::string>& roles) {
    std::vector<const Process*> fitting;
    for (const Process& one : all) {
      if (std::find(roles.begin(), roles.end(), one.role) != roles.end()) {
        fitting.push_back(&one);
      }
    }
    return fitting.empty() ? nullptr : fitting[rng_.below(fitting.size())];
  }

  Rng rng_;
};

void check_whole(const Campaign& campaign) {
  const Workplace& place = campaign.place;
  for (const std::string& problem :
       contradictions(place / "campaign.db", place / "events.json")) {
    FAIL_CHECK(problem);
  }
  CHECK(place.orphans().empty());
  for (const auto& entry :
       fs::recursive_directory_iterator(place / "campaign.files")) {
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    CHECK_FALSE(name.ends_with(".tmp"));
    CHECK_FALSE(name.starts_with("probe-"));
    CHECK_FALSE(contains(name, ".new-"));
  }
}

}  // namespace

TEST_CASE("a study under faults loses nothing and ends as it should") {
  const auto wanted = static_cast<int>(from_environment("DTUNE_FAULTS", 10));
  const uint64_t seed = from_environment("DTUNE_SEED", 15);
  std::map<std::string, int> faults;
  int studies = 0;
  for (int done = 0; done < wanted; ++studies) {
    CAPTURE(seed);
    CAPTURE(studies);
    Campaign campaign(mix_seed({seed, uint64_t(studies)}));
    done += std::max(1, campaign.run(std::min(10, wanted - done)));
    check_whole(campaign);
    for (const auto& [kind, count] : campaign.faults) faults[kind] += count;
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
}
