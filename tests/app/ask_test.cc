// dtune ask and dtune tell from outside.
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "app/history.h"
#include "app/program.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test
using nlohmann::json;

namespace {

std::string recipe(int trials, int steps, const std::string& more) {
  return fmt::format(
      "study: mine\n"
      "command: {{ run: none, steps: {} }}\n"
      "space: {{ lr: {{ log: [1.0e-4, 1.0] }} }}\n"
      "objective: score\n"
      "budget: {{ trials: {} }}\n{}",
      steps, trials, more);
}

json parsed(const Outcome& outcome) {
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  return json::parse(outcome.out);
}

double score(const json& asked) {
  const double off = std::log10(asked["params"]["lr"].get<double>()) + 2;
  return 0.9 - 0.1 * off * off;
}

Outcome tell(const Workplace& place, const json& asked, double value,
             std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"tell", "s.db", asked["trial"].dump(),
                             fmt::format("score={}", value)});
  return place.run(more);
}

}  // namespace

TEST_CASE("tell before the first ask says how such a study begins") {
  Workplace place;
  place.write("s.yaml", recipe(2, 2, ""));
  CHECK(contains(place.run({"tell", "s.yaml", "1", "score=0.5"}).err,
                 "(start with 'dtune ask s.yaml', or name the database)"));
}

TEST_CASE("a clock that was set back does not damage an asked study") {
  const Workplace place;
  place.write("s.yaml", recipe(5, 0, "sampler: sobol\n"));
  parsed(place.run({"ask", "s.yaml"}));
  edit_database(place / "s.db",
                "UPDATE study SET created_ms = created_ms + 3600000");
  const json asked = parsed(place.run({"ask", "s.db"}));
  CHECK(asked["trial"] == 2);
  CHECK(parsed(tell(place, asked, 0.5))["state"] == "complete");
}

TEST_CASE("points are asked for and reported until the budget is spent") {
  const Workplace place;
  place.write("s.yaml", recipe(5, 0, "sampler: sobol\n"));
  double best = -1;
  for (int i = 1; i <= 5; ++i) {
    const json asked = parsed(place.run({"ask", "s.yaml"}));
    CHECK(asked["trial"] == i);
    CHECK(asked["to_step"].is_null());
    best = std::max(best, score(asked));
    const json told = parsed(tell(place, asked, score(asked)));
    CHECK(told["state"] == "complete");
    CHECK(told["go_on"] == false);
  }
  const Outcome over = place.run({"ask", "s.yaml"});
  CHECK(over.code == 1);
  CHECK(json::parse(over.out)["finished"] == true);
  const json found = parsed(place.run({"best", "s.db", "--json"}));
  CHECK(found["value"].get<double>() == doctest::Approx(best));
  const json status = parsed(place.run({"status", "s.db", "--json"}));
  CHECK(status["state"] == "finished");
  CHECK(contains(status["why"].get<std::string>(), "is spent"));
  const Outcome replay = place.run({"replay", "s.db"});
  CHECK_MESSAGE(replay.code == 0, (replay.out + replay.err));
}

TEST_CASE("a recipe that changed between two questions counts, or is refused") {
  const Workplace place;
  place.write("s.yaml", recipe(1, 0, "sampler: sobol\n"));
  tell(place, parsed(place.run({"ask", "s.yaml"})), 0.5);
  CHECK(place.run({"ask", "s.yaml"}).code == 1);
  const std::vector<std::string> more = {"ask", "s.yaml", "--set",
                                         "budget.trials=2"};
  CHECK(parsed(place.run(more))["trial"] == 2);
  const Outcome other =
      place.run({"ask", "s.yaml", "--set", "space.lr.log=[0.1, 1]"});
  CHECK(other.code == 2);
  CHECK(contains(other.err, "holds a study of another recipe (changed: "));
  CHECK(contains(other.err, "'dtune ask s.db'; keep both: --db OTHER.db)"));
  // A database would not be changed, and the question would cost a trial.
  const Outcome database =
      place.run({"ask", "s.db", "--set", "budget.trials=3"});
  CHECK(database.code == 2);
  CHECK(
      contains(database.err, "--set goes with a recipe, not with a database"));
  CHECK(parsed(place.run({"status", "s.db", "--json"}))["trials"]["total"] ==
        2);
}

TEST_CASE("a study of which trials were asked for is listed as running") {
  const Workplace place;
  place.write("s.yaml", recipe(2, 0, "sampler: sobol\n"));
  parsed(place.run({"ask", "s.yaml"}));
  CHECK(contains(place.run({"ls"}).out, "running"));
}

TEST_CASE("questions to a study that is finished do not change it") {
  const Workplace place;
  place.write("s.yaml", recipe(1, 0, "sampler: sobol\n"));
  tell(place, parsed(place.run({"ask", "s.yaml"})), 0.5);
  CHECK(place.run({"ask", "s.yaml"}).code == 1);
  edit_database(place / "s.db",
                "UPDATE study SET created_ms = created_ms - 3600000");
  CHECK(place.run({"ask", "s.db"}).code == 1);
  const json status = parsed(place.run({"status", "s.db", "--json"}));
  CHECK(status["searched_seconds"].get<double>() < 600);
}

TEST_CASE("a report without the objective's metric says what to write") {
  const Workplace place;
  place.write("s.yaml", recipe(1, 0, ""));
  const json asked = parsed(place.run({"ask", "s.yaml"}));
  CHECK_FALSE(contains(asked["why"].get<std::string>(), "000000"));
  CHECK(contains(place.run({"tell", "s.db", "1", "scroe=0.5"}).err,
                 "the report has no score, the objective's metric, did you "
                 "mean 'score'? (write score=NUMBER)"));
}

TEST_CASE("a trial is reported step by step, paused, and asked for again") {
  const Workplace place;
  place.write("s.yaml", recipe(4, 8, "sampler: plain-gp\n"));
  std::map<int, int> steps;
  int resumed = 0;
  while (true) {
    const Outcome outcome = place.run({"ask", "s.yaml"});
    if (outcome.code == 1) break;
    const json asked = parsed(outcome);
    const int from = asked["from_step"];
    CHECK(from == steps[asked["trial"].get<int>()]);
    CHECK(asked["horizon"] == 8);
    resumed += from > 0 ? 1 : 0;
    json told = {{"go_on", true}, {"to_step", asked["to_step"]}};
    for (int step = from + 1; told["go_on"].get<bool>(); ++step) {
      told = parsed(tell(place, asked, score(asked) - 0.3 / step));
      CHECK(told["step"] == step);
      steps[asked["trial"].get<int>()] = step;
    }
  }
  CHECK(steps.size() == 4);
  CHECK(resumed > 0);
  const json status = parsed(place.run({"status", "s.db", "--json"}));
  CHECK(status["trials"]["complete"].get<int>() >= 1);
}

TEST_CASE("what broke, made no sense or was lost is reported as such") {
  const Workplace place;
  place.write("s.yaml", recipe(2, 0, "sampler: sobol\n"));
  const json first = parsed(place.run({"ask", "s.yaml"}));
  CHECK(parsed(place.run(
            {"tell", "s.db", "1", "--lost", "power cut"}))["state"] == "lost");
  const json again = parsed(place.run({"ask", "s.yaml"}));
  CHECK(again["trial"] == 1);
  CHECK(again["attempt"] == 2);
  CHECK(again["params"] == first["params"]);
  // What the first attempt says now does not count any more.
  CHECK(parsed(tell(place, first, 0.5, {"--attempt", "1"}))["counted"] ==
        false);
  CHECK(parsed(place.run({"tell", "s.db", "1", "--invalid",
                          "too big"}))["state"] == "invalid");
  CHECK(parsed(place.run({"ask", "s.yaml"}))["trial"] == 2);
  CHECK(parsed(place.run({"tell", "s.db", "2", "--failed",
                          "out of memory"}))["state"] == "failed");
  // One of two trials was invalid, and does not count.
  CHECK(parsed(place.run({"ask", "s.yaml"}))["trial"] == 3);
  const Outcome none = place.run({"ask", "s.yaml"});
  CHECK(none.code == 75);
  const json waiting = json::parse(none.out);
  CHECK(waiting["finished"] == false);
  CHECK(waiting["why"].get<std::string>().starts_with(
      "waits for a report of trial 3 (dtune tell): "));
  // No process runs such a study: it goes on all the same.
  CHECK(parsed(place.run({"status", "s.db", "--json"}))["state"] == "running");
}

TEST_CASE(
    "a step is reported as a program prints it, and errors are JSON, too") {
  const Workplace place;
  place.write("s.yaml", recipe(2, 4, "sampler: sobol\nscheduler: fifo\n"));
  const json asked = parsed(place.run({"ask", "s.yaml", "--json"}));
  CHECK(parsed(tell(place, asked, 0.5, {"step=1", "--json"}))["step"] == 1);
  CHECK(parsed(tell(place, asked, 0.5, {"step=1"}))["counted"] == false);
  const Outcome wrong = tell(place, asked, 0.5, {"step=x", "--json"});
  CHECK(wrong.code == 2);
  CHECK(json::parse(wrong.out)["error"]["message"] ==
        "'step=x' is not a step (write e.g. step=3)");
  const json shown = parsed(place.run({"show", "s.db", "1", "--json"}));
  CHECK(shown["metrics"].size() == 1);  // no metric is called step
  const Outcome curves = place.run({"export", "s.db", "--csv", "--curves"});
  CHECK(curves.code == 0);
  CHECK(curves.out == place.run({"export", "s.db", "--curves"}).out);
}

TEST_CASE("several ask and tell at once, and no trial is lost or shared") {
  const Workplace place;
  constexpr int kTrials = 16;
  place.write("s.yaml", recipe(kTrials, 0, "sampler: random\n"));
  // Reports come by standard input here.
  const std::string loop =
      "while a=$('" DTUNE_BINARY
      "' ask s.yaml); do "
      "t=$(echo \"$a\" | sed 's/.*\"trial\":\\([0-9]*\\).*/\\1/'); "
      "echo $t >> asked.txt; "
      "echo \"{\\\"trial\\\": $t, \\\"metrics\\\": {\\\"score\\\": 0.$t}}\" | "
      "'" DTUNE_BINARY
      "' tell s.db - > /dev/null || exit 9; done; "
      "case \"$a\" in *'\"trial\":null'*) exit 0;; esac; exit 8";
  const std::string in = "cd '" + place.path().string() + "' && " + loop;
  std::vector<int> codes(4, -1);
  std::vector<std::thread> askers;
  for (int& code : codes) {
    askers.emplace_back([&code, &in] { code = std::system(in.c_str()); });
  }
  for (std::thread& asker : askers) asker.join();
  for (const int code : codes) CHECK(code == 0);
  std::multiset<int> asked;
  std::istringstream lines(place.read("asked.txt"));
  for (int trial = 0; lines >> trial;) asked.insert(trial);
  CHECK(asked.size() == kTrials);
  CHECK(std::set<int>(asked.begin(), asked.end()).size() == kTrials);
  const json status = parsed(place.run({"status", "s.db", "--json"}));
  CHECK(status["trials"]["complete"] == kTrials);
}

TEST_CASE("a trial that failed without a reason has failed all the same") {
  const Workplace place;
  place.write("s.yaml", recipe(2, 0, "sampler: sobol\n"));
  parsed(place.run({"ask", "s.yaml"}));
  const json words = parsed(place.run({"tell", "s.db", "1", "--failed", ""}));
  CHECK(words["state"] == "failed");
  CHECK(words["why"] == "(no reason)");
  parsed(place.run({"ask", "s.yaml"}));
  place.write("report", R"({"trial": 2, "failed": "", "lost": null})");
  const std::string in = "cd '" + place.path().string() + "' && '";
  REQUIRE(std::system(
              (in + DTUNE_BINARY + "' tell s.db - < report > said").c_str()) ==
          0);
  CHECK(json::parse(place.read("said"))["state"] == "failed");
}

TEST_CASE("a report that cannot be accepted is refused, with the remedy") {
  const Workplace place;
  place.write("s.yaml", recipe(3, 4, "sampler: sobol\n"));
  parsed(place.run({"ask", "s.yaml"}));
  const auto wrong = [&](std::vector<std::string> words,
                         const std::string& text) {
    words.insert(words.begin(), {"tell", "s.db"});
    const Outcome outcome = place.run(words);
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, text), outcome.err);
  };
  wrong({"7", "score=1"}, "there is no trial 7 (it has 1)");
  wrong({"1", "loss=1"}, "the report has no score, the objective's metric");
  wrong({"1", "score"}, "'score' is not METRIC=NUMBER");
  wrong({"1", "score=1", "score=2"}, "'score=2' gives score a second value");
  wrong({"one", "score=1"}, "'one' is not a trial's number");
  wrong({"1", "score=1", "--step", "3"},
        "step 3 comes after step 0: tell of every step");
  wrong({"1", "score=1", "--step", "4294967297"},
        "--step: 4294967297 is out of range (1 to 2147483647)");
  wrong({"1", "score=1", "--step", "0"}, "--step: 0 is out of range (1 to");
  wrong({"1", "--failed", "no memory", "--lost", "no node"},
        "a trial has one outcome");
  for (const char* odd : {"4294967297", "-7", "0.5", "0"}) {
    place.write("report", fmt::format("{{\"trial\":1,\"step\":{},"
                                      "\"metrics\":{{\"score\":1}}}}",
                                      odd));
    const std::string in = "cd '" + place.path().string() + "' && '";
    const std::string words = "' tell s.db - < report 2> err";
    CHECK(std::system((in + DTUNE_BINARY + words).c_str()) != 0);
    const std::string said = place.read("err");
    CHECK_MESSAGE(contains(said, fmt::format("stdin:1:1: {} is not a", odd)),
                  said);
  }
  const Outcome run = place.run({"run", "s.yaml"});
  CHECK(run.code == 2);
  CHECK_MESSAGE(contains(run.err, "'dtune ask'"), run.err);
}
