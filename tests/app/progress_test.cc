// What a user sees while a study runs.
#include <algorithm>
#include <csignal>
#include <regex>
#include <sstream>

#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

std::vector<std::string> output_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Lines "12.3s trial 4 ...".
int64_t trial_lines(const std::string& text) {
  const std::regex line("[0-9.]+s trial [0-9]+ .*");
  const auto lines = output_lines(text);
  return std::count_if(lines.begin(), lines.end(), [&](const auto& one) {
    return std::regex_match(one, line);
  });
}

}  // namespace

TEST_CASE("without a terminal there is one line for each turn of a trial") {
  Workplace place;
  const std::string recipe = shell_recipe(5, 4, "0");
  place.write("shell.yaml", recipe + "scheduler: fifo\n");
  const Outcome brief = place.run({"run", "shell.yaml"});
  REQUIRE_MESSAGE(brief.code == 0, brief.err);
  CHECK_MESSAGE(trial_lines(brief.out) == 5, brief.out);
  CHECK(contains(brief.out, "step 4/4 val_accuracy="));
  CHECK_FALSE(contains(brief.out, "assigned"));
  const Outcome all = place.run({"run", "shell.yaml", "--fresh", "--verbose"});
  CHECK(trial_lines(all.out) >= 5 * 5);
  CHECK(contains(all.out, "assigned"));
  // Turns of one step each: the usual pauses and promotions are not named.
  place.write("turns.yaml", recipe + "scheduler: { kind: asha, eta: 2 }\n");
  const Outcome turns = place.run({"run", "turns.yaml"});
  REQUIRE_MESSAGE(turns.code == 0, turns.err);
  for (const std::string& line : output_lines(turns.out)) {
    if (!contains(line, "s trial ")) continue;
    CHECK_FALSE(contains(line, "paused"));
    CHECK_FALSE(contains(line, "promoted"));
  }
}

TEST_CASE("the bar never goes back, and the time left is a range") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(8, 4, "0.1") +
                                "scheduler: { kind: asha, eta: 2 }\n");
  RunningProgram program = place.start({"run", "shell.yaml"}, true);
  const Outcome outcome = program.wait();
  REQUIRE(outcome.code == 0);
  const std::regex percent(" ([0-9]+)%  [0-9]+ trial");
  int before = 0;
  int frames = 0;
  for (std::sregex_iterator it(outcome.out.begin(), outcome.out.end(), percent);
       it != std::sregex_iterator(); ++it, ++frames) {
    const int now = std::stoi((*it)[1]);
    CHECK(now >= before);
    before = now;
  }
  CHECK(frames > 3);
  CHECK(contains(outcome.out, " left"));
}

TEST_CASE("a terminal's own progress is cleared however a run ends") {
  Workplace place;
  place.environment["WT_SESSION"] = "1";  // a terminal that shows it
  place.write("shell.yaml", held_recipe(4, 4, "0", 1));
  const std::string cleared = "\x1b]9;4;0\x1b\\";
  for (const int signal : {0, SIGINT, SIGTERM, SIGQUIT}) {
    CAPTURE(signal);
    place.hold();
    RunningProgram program =
        place.start({"run", "shell.yaml", "--fresh"}, true);
    REQUIRE(program.wait_for("\x1b]9;4;1;"));
    if (signal == 0) {
      place.release();
    } else {
      program.send(signal);
    }
    const std::string out = program.wait().out;
    CHECK(out.rfind(cleared) != std::string::npos);
    CHECK(out.rfind("\x1b]9;4;") == out.rfind(cleared));
    CHECK(out.rfind("\x1b[?25h") > out.rfind("\x1b[?25l"));
  }
}

TEST_CASE("a summary shows the budget as it is now") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(3, 2, "0"));
  const Outcome first = place.run({"run", "shell.yaml", "--quiet"});
  CHECK(contains(first.out, "the budget of 3 trials is spent"));
  const Outcome more =
      place.run({"resume", "shell.db", "--trials", "+2", "--quiet"});
  CHECK(contains(more.out, "the budget of 5 trials is spent"));
  CHECK_FALSE(contains(more.out, "the budget of 3"));
}
