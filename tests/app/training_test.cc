// A network trained by the program, from recipe to model and back.
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "app/program.h"
#include "data/fixtures.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr const char* kTrainingRecipe =
    "study: tiny\n"
    "deterministic: true\n"
    "data: { kind: synthetic, size: [12, 12], classes: 3, samples: 400,"
    " difficulty: 0.3 }\n"
    "model: { arch: cnn-small, width: 4 }\n"
    "train: { epochs: 3, batch_size: 32 }\n"
    "budget: { trials: 4 }\n"
    "slots: 2\n"
    "expect: { test_accuracy: \">= 0.5\" }\n";

// Steps of different cost, and few enough that any clock would be noise.
constexpr const char* kSameTwice =
    "study: same\n"
    "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 300,"
    " difficulty: 0.5 }\n"
    "model: { arch: cnn-small }\n"
    "train: { epochs: 6, batch_size: 32 }\n"
    "space: { width: { key: model.width, choice: [2, 4, 8] } }\n"
    "budget: { trials: 7 }\n";

// What may differ between two runs of one study: its name and the clock.
void drop_times(nlohmann::json& event) {
  for (const char* key : {"id", "seconds", "step_seconds", "checkpoint_seconds",
                          "searched_seconds"}) {
    if (event.is_object()) event.erase(key);
  }
  if (!event.is_structured()) return;
  for (auto& part : event) drop_times(part);
}

// Every event of a run, a line each, and the bytes of the model.
std::vector<std::string> story_of(const Workplace& place,
                                  const std::string& slots,
                                  const std::string& events) {
  const Outcome outcome =
      place.run({"run", "same.yaml", "--fresh", "--plain", "--deterministic",
                 "--set", "slots=" + slots, "--events", events});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  std::vector<std::string> story;
  std::istringstream lines(place.read(events));
  for (std::string line; std::getline(lines, line);) {
    auto event = nlohmann::json::parse(line);
    drop_times(event);
    story.push_back(event.dump());
  }
  story.push_back(place.read("same.files/model.safetensors"));
  return story;
}

nlohmann::json result_of(const Outcome& outcome) {
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  return nlohmann::json::parse(outcome.out);
}

}  // namespace

TEST_CASE("a tuned model is kept, and eval gives its test metrics exactly") {
  Workplace place;
  place.write("tiny.yaml", kTrainingRecipe);
  const auto result =
      result_of(place.run({"run", "tiny.yaml", "--json", "--quiet"}));
  CHECK(place.has("tiny.files/model.safetensors"));
  CHECK(place.has("tiny.files/model.yaml"));
  CHECK(result["passed"] == true);
  for (const char* model : {"tiny.files/model.safetensors", "tiny.yaml"}) {
    const auto judged = result_of(place.run({"eval", model, "--json"}));
    CHECK(judged["test_accuracy"] == result["test_accuracy"]);
    CHECK(judged["test_loss"] == result["test_loss"]);
  }
  CHECK(place.run({"eval", "tiny.yaml", "--split", "tset"}).code == 2);

  SUBCASE("and a resume that cannot train leaves the study as it is") {
    place.environment["DTUNE_LIBRARY_PATH"] = "/nowhere";
    CHECK(place.run({"resume", "tiny.db", "--trials", "+1"}).code == 3);
    const auto status = result_of(place.run({"status", "tiny.db", "--json"}));
    CHECK(status["state"] == "finished");
  }
  SUBCASE("and the same seed gives the same study") {
    const auto again = result_of(place.run(
        {"run", "tiny.yaml", "--json", "--quiet", "--db", "other.db"}));
    CHECK(again["params"] == result["params"]);
    CHECK(again["metrics"] == result["metrics"]);
  }
  CHECK(place.orphans().empty());
}

TEST_CASE("deterministic runs of the default tuner tell the same story") {
  Workplace place;
  place.write("same.yaml", kSameTwice);
  for (const char* slots : {"1", "2"}) {
    CAPTURE(slots);
    const auto once = story_of(place, slots, std::string("once") + slots);
    const auto again = story_of(place, slots, std::string("again") + slots);
    CHECK(once.size() > 30);
    REQUIRE(once.size() == again.size());
    for (size_t i = 0; i < once.size(); ++i) {
      CAPTURE(i);
      CHECK(once[i] == again[i]);
    }
  }
  CHECK(place.orphans().empty());
}

// The objective falls while the network learns, so the first step is the best
// and the last the worst.
constexpr const char* kWorsens =
    "study: tiny\n"
    "deterministic: true\n"
    "data: { kind: synthetic, size: [12, 12], classes: 3, samples: 400,"
    " difficulty: 0.3 }\n"
    "model: { arch: cnn-small, width: 4 }\n"
    "train: { epochs: 3, batch_size: 32 }\n"
    "objective: { metric: val_accuracy, goal: minimize }\n"
    "scheduler: fifo\n"
    "sampler: random\n"
    "space: { lr: { log: [0.02, 0.1] }, l2: 0.0001, dropout: 0 }\n"
    "budget: { trials: 2 }\n"
    "slots: 2\n";

// The metadata of a model file: JSON behind eight bytes of its length.
nlohmann::json card_of(const Workplace& place, const std::string& model) {
  const std::string bytes = place.read(model);
  REQUIRE(bytes.size() > 8);
  uint64_t size = 0;
  for (int i = 7; i >= 0; --i) {
    size = size << 8 | static_cast<unsigned char>(bytes[size_t(i)]);
  }
  return nlohmann::json::parse(bytes.substr(8, size))["__metadata__"];
}

// Summary, JSON, model card and `eval` say the same of one model.
void check_one_model(const Workplace& place, const nlohmann::json& best) {
  CHECK(best["metrics"]["val_accuracy"] == best["value"]);
  CHECK(best["val_accuracy"] == best["value"]);
  CHECK(best["final"]["metrics"] == best["metrics"]);
  CHECK(best["final"]["step"] == best["step"]);
  CHECK(best["search"]["trial"] == best["trial"]);
  const auto card = card_of(place, "tiny.files/model.safetensors");
  CHECK(card["search_trial"] == best["trial"].dump());
  CHECK(card["step"] == best["step"].dump());
  CHECK(card["chosen"] == best["chosen"]);
  const auto written =
      nlohmann::json::parse(card["metrics"].get<std::string>());
  CHECK(written["val_accuracy"] == best["value"]);
  const auto judged = result_of(
      place.run({"eval", "tiny.yaml", "--split", "validation", "--json"}));
  bool found = false;
  for (const auto& [name, value] : judged.items()) {
    if (name.ends_with("accuracy")) found = value == best["value"];
  }
  CHECK_MESSAGE(found, judged.dump());
}

TEST_CASE("the best step is shipped, and everything says so alike") {
  Workplace place;
  place.write("tiny.yaml", kWorsens);
  const auto result =
      result_of(place.run({"run", "tiny.yaml", "--json", "--quiet"}));
  const auto best = result_of(place.run({"best", "tiny.db", "--json"}));
  CHECK(best["metrics"] == result["metrics"]);
  CHECK(best["step"] < 3);
  CHECK(best["value"] == best["search"]["metrics"]["val_accuracy"]);
  check_one_model(place, best);
  const std::string summary = place.run({"best", "tiny.db"}).out;
  CHECK(contains(summary, "trial " + best["trial"].dump() + ", step"));
  CHECK(contains(summary, "no step after it was better"));

  SUBCASE("after more budget, too, with a summary of the budget as it is") {
    const Outcome more =
        place.run({"resume", "tiny.db", "--trials", "+1", "--quiet"});
    CHECK_MESSAGE(more.code == 0, more.err);
    CHECK(contains(more.out, "the budget of 3 trials is spent"));
    check_one_model(place, result_of(place.run({"best", "tiny.db", "--json"})));
  }
}

TEST_CASE("levels of images are planned, tuned and trained to the end") {
  Workplace place;
  place.write("levels.yaml",
              "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 400,"
              " difficulty: 0.3 }\n"
              "model: { arch: cnn-small, width: 4 }\n"
              "train: { epochs: 2, batch_size: 32 }\n"
              "fidelity: { kind: data.limit, levels: 3 }\n"
              "budget: { trials: 4 }\n"
              "slots: 1\n"
              "sampler: random\n");
  CHECK(contains(place.run({"plan", "levels.yaml"}).out,
                 "each step from the start, on 90, 180, 360 images"));
  const auto result =
      result_of(place.run({"run", "levels.yaml", "--quiet", "--json"}));
  CHECK(result["horizon"] == 3);
  CHECK(result["search"]["step"].get<int>() <= 3);
  const auto trials = nlohmann::json::parse(
      place.run({"export", "levels.db", "--json"}).out)["list"];
  const auto steps_of_last = [](const nlohmann::json& all) {
    return all.back()["step"].get<int>();
  };
  CHECK(trials.back()["kind"] == "final");
  CHECK(steps_of_last(trials) == 3);
  CHECK(place.run({"eval", "levels.files/model.safetensors"}).code == 0);

  const auto whole =
      result_of(place.run({"run", "levels.yaml", "--quiet", "--json", "--fresh",
                           "--set", "final.data=train+validation"}));
  CHECK(whole["final"]["step"] == 1);

  const Outcome small =
      place.run({"plan", "levels.yaml", "--set", "fidelity.levels=9"});
  CHECK(small.code == 2);
  CHECK(contains(small.err,
                 "step 1 of 9 would train on 1 images only, of 3 classes (at "
                 "most 6 levels fit)"));
  const Outcome recorded =
      place.run({"record", "levels.yaml", "--output", "c.npz"});
  CHECK(recorded.code == 2);
  CHECK(contains(recorded.err, "a recording is of curves over epochs"));
}

TEST_CASE("the last step is shipped where the recipe says so") {
  Workplace place;
  place.write("tiny.yaml", std::string(kWorsens) + "final: { keep: last }\n");
  const auto result =
      result_of(place.run({"run", "tiny.yaml", "--json", "--quiet"}));
  CHECK(result["step"] == 3);
  CHECK(result["value"] >= result["search"]["metrics"]["val_accuracy"]);
  check_one_model(place, result_of(place.run({"best", "tiny.db", "--json"})));
}

TEST_CASE("the search's own model is shipped where the final one is worse") {
  Workplace place;
  std::string recipe = kWorsens;
  const std::string minimize = "goal: minimize";
  recipe.replace(recipe.find(minimize), minimize.size(), "goal: maximize");
  place.write("tiny.yaml", recipe + "final: { epochs: 1 }\n");
  const auto result =
      result_of(place.run({"run", "tiny.yaml", "--json", "--quiet"}));
  const auto best = result_of(place.run({"best", "tiny.db", "--json"}));
  CHECK(best["value"] == best["search"]["metrics"]["val_accuracy"]);
  CHECK(best["step"] == best["search"]["step"]);
  CHECK(best["step"] > 1);
  CHECK(contains(best["chosen"], "the search's own model is kept"));
  CHECK(contains(place.run({"best", "tiny.db"}).out,
                 "the search's own model is kept"));
  CHECK(result["metrics"] == best["metrics"]);
  check_one_model(place, best);
}

TEST_CASE("a final training that was killed goes on to the same model") {
  Workplace place;
  const std::string recipe = std::string(kWorsens) + "final: { epochs: 60 }\n";
  place.write("tiny.yaml", recipe);
  place.write("whole.yaml", recipe);
  const auto whole =
      result_of(place.run({"run", "whole.yaml", "--json", "--quiet"}));
  {
    RunningProgram program = place.start({"run", "tiny.yaml", "--verbose"});
    REQUIRE(program.wait_for("trial 3 step 5/"));
    program.send_group(SIGKILL);
    CHECK(program.wait().signal == SIGKILL);
  }
  const auto resumed =
      result_of(place.run({"resume", "tiny.db", "--json", "--quiet"}));
  CHECK(resumed["params"] == whole["params"]);
  CHECK(resumed["metrics"] == whole["metrics"]);
  CHECK(resumed["step"] == whole["step"]);
  check_one_model(place, result_of(place.run({"best", "tiny.db", "--json"})));
  CHECK(place.orphans().empty());
}

TEST_CASE("doctor measures the engine and tells what is wrong") {
  const Workplace place;
  const Outcome outcome = place.run({"doctor", "--json"});
  const auto document = nlohmann::json::parse(outcome.out);
  CHECK(outcome.code == (document["healthy"] == true ? 0 : 1));
  CHECK(document["findings"].size() >= 7);
  for (const auto& finding : document["findings"]) {
    if (finding["health"] != "ok") CHECK(finding["remedy"] != "");
  }
}

TEST_CASE("as many ranks as said are measured, and powers of two below") {
  const Workplace place;
  const auto measured =
      result_of(place.run({"bench", "train", "--model", "cnn-small", "--image",
                           "12", "--batch", "8", "--batches", "2", "--strategy",
                           "allreduce", "--ranks", "3", "--json"}));
  std::vector<int> ranks;
  for (const auto& row : measured["rows"]) ranks.push_back(row["ranks"]);
  CHECK(ranks == std::vector<int>{1, 2, 3});
}

TEST_CASE("ranks that are slowed and killed leave a measurement behind") {
  const Workplace place;
  const auto measured = result_of(place.run(
      {"bench",      "train",     "--model",     "cnn-small", "--image",
       "12",         "--batch",   "8",           "--batches", "40",
       "--strategy", "allreduce", "--exact",     "--json",    "--slow",
       "1:2",        "--spike",   "1:0.05:0.01", "--kill",    "1:0.1"}));
  CHECK(measured["rows"][0]["images_per_second"] > 0);
  CHECK(measured["rows"][0]["percent"].size() == 7);
  CHECK(place.orphans().empty());
}

TEST_CASE("eval needs nothing beside the model") {
  Workplace place;
  place.write("tiny.yaml", kTrainingRecipe);
  const auto result =
      result_of(place.run({"run", "tiny.yaml", "--json", "--quiet"}));
  std::filesystem::rename(place / "tiny.files/model.safetensors",
                          place / "alone.safetensors");
  const auto judged =
      result_of(place.run({"eval", "alone.safetensors", "--json"}));
  CHECK(judged["test_accuracy"] == result["test_accuracy"]);
  CHECK(judged["test_loss"] == result["test_loss"]);

  // The line that best prints trains that point alone.
  const Outcome best = place.run({"best", "tiny.db"});
  const std::string heading = "train it again:\n  dtune ";
  const size_t begin = best.out.find(heading);
  REQUIRE(begin != std::string::npos);
  const size_t end = best.out.find('\n', begin + heading.size());
  std::string line = best.out.substr(begin + heading.size() - 6,
                                     end - begin - heading.size() + 6);
  const std::string function = "dtune() { '" DTUNE_BINARY "' \"$@\"; }\n";
  place.write("paste.sh",
              function + "cd '" + place.path().string() + "'\n" + line + "\n");
  const std::string paste = "bash '" + (place / "paste.sh").string() + "' > '" +
                            (place / "out.txt").string() + "' 2>&1";
  CHECK_MESSAGE(std::system(paste.c_str()) == 0, place.read("out.txt"));
  const auto again = result_of(place.run({"best", "tiny-best.db", "--json"}));
  CHECK(result_of(place.run(
            {"status", "tiny-best.db", "--json"}))["trials"]["total"] == 1);
  CHECK(again["value"].get<double>() > 0.5);
}

TEST_CASE("eval of a study without a model says what to do for one") {
  Workplace place;
  place.write("tiny.yaml", kTrainingRecipe);
  const auto refused = [&](const std::string& remedy) {
    const Outcome outcome = place.run({"eval", "tiny.yaml"});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, remedy), outcome.err);
  };
  {
    RunningProgram program = place.start(
        {"run", "tiny.yaml", "--verbose", "--set", "train.epochs=10000"});
    REQUIRE(program.wait_for("step 1/"));
    refused(
        "the study is running and writes it at its end: follow it with "
        "'dtune status tiny.yaml --watch'");
    program.send(SIGINT);
    CHECK(program.wait().code == 130);
  }
  refused("let the study finish: 'dtune resume tiny.yaml'");
  REQUIRE(place
              .run({"run", "tiny.yaml", "--fresh", "--quiet", "--set",
                    "final=false", "--set", "expect={}"})
              .code == 0);
  refused("'dtune best tiny.yaml --recipe' prints a recipe that trains");
}

TEST_CASE("float images in [0, 1] train as the same images in uint8 do") {
  using namespace dtune::testing;
  Workplace place;
  Bytes levels;
  Bytes labels;
  std::vector<float> shares;
  for (int i = 0; i < 120; ++i) {
    labels.push_back(static_cast<uint8_t>(i % 2));
    for (int p = 0; p < 64; ++p) {
      levels.push_back(
          static_cast<uint8_t>((i * 37 + p * 11 * (1 + i % 2)) % 256));
      shares.push_back(static_cast<float>(levels.back()) / 255.0F);
    }
  }
  const Bytes all = npy_bytes("|u1", {120}, labels);
  write_npz(place / "levels.npz",
            {{"train_images", npy_bytes("|u1", {120, 8, 8}, levels)},
             {"train_labels", all}});
  write_npz(
      place / "floats.npz",
      {{"train_images", npy_bytes("<f4", {120, 8, 8}, float_bytes(shares))},
       {"train_labels", all}});
  place.write("set.yaml",
              "study: set\ndeterministic: true\n"
              "data: { kind: npz, path: levels.npz, validation: 30 }\n"
              "model: { arch: cnn-small, width: 4 }\n"
              "train: { epochs: 2, batch_size: 16 }\n"
              "sampler: sobol\nscheduler: fifo\n"
              "budget: { trials: 2 }\nslots: 1\n");
  const auto metrics = [&](const std::string& set, const std::string& db) {
    return result_of(place.run({"run", "set.yaml", "--json", "--quiet", "--set",
                                "data.path=" + set, "--db", db}))["metrics"];
  };
  CHECK(metrics("levels.npz", "a.db") == metrics("floats.npz", "b.db"));
}

TEST_CASE("plan measures how long a study takes") {
  Workplace place;
  place.write("tiny.yaml", kTrainingRecipe);
  const auto plan =
      result_of(place.run({"plan", "tiny.yaml", "--measure", "--json"}));
  CHECK(contains(plan["time"]["source"], "measured: "));
  CHECK(plan["time"]["training_seconds"] > 0);
  CHECK(plan["time"]["final_seconds"] > 0);
  CHECK(plan["time"]["search_seconds_at_most"] > 0);
  CHECK(contains(place.run({"plan", "tiny.yaml"}).out, "--measure"));
  CHECK_FALSE(place.has("tiny.db"));
}

TEST_CASE("doctor names a remedy for what is installed, not for a busy core") {
  const Workplace place;
  // Three quarters of the only core are gone.
  place.write("busy.sh",
              "taskset -p -c 0 $$ > /dev/null\n"
              "sh -c 'while :; do :; done' & busy=$!\n"
              "nice -n 5 '" DTUNE_BINARY
              "' doctor --json > out.json\n"
              "kill $busy\n");
  const std::string line = "cd '" + place.path().string() + "' && bash busy.sh";
  REQUIRE(std::system(line.c_str()) == 0);
  const auto document = nlohmann::json::parse(place.read("out.json"));
  for (const auto& finding : document["findings"]) {
    if (finding["topic"] != "BLAS") continue;
    const std::string what = finding["what"];
    if (contains(what, "neither")) continue;
    CHECK_FALSE(contains(finding["remedy"], "apt install"));
    CHECK(finding["health"] != "problem");
  }
}

TEST_CASE("what a network costs is measured, bounded and traded off") {
  const Workplace place;
  place.write("s.yaml",
              "study: costs\n"
              "data: { kind: synthetic, size: [8, 8], classes: 3, samples: "
              "200 }\n"
              "train: { epochs: 2, batch_size: 32 }\n"
              "objective: { metric: val_accuracy, trade_off: [parameters, "
              "latency_ms] }\n"
              "require: { parameters: \"<= 2000\" }\n"
              "space: { l2: 0, dropout: 0, model.width: { choice: [2, 4, 16] "
              "} }\n"
              "sampler: random\n"
              "scheduler: fifo\n"
              "budget: { trials: 7 }\n"
              "final: false\n"
              "slots: 2\n");
  const Outcome outcome = place.run({"run", "s.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const auto best =
      nlohmann::json::parse(place.run({"best", "s.db", "--json"}).out);
  CHECK(best["metrics"]["parameters"].get<double>() <= 2000);
  CHECK(best["metrics"]["parameters"].get<double>() > 50);
  CHECK(best["metrics"]["latency_ms"].get<double>() > 0);
  const auto front = nlohmann::json::parse(
      place.run({"best", "s.db", "--pareto", "--json"}).out);
  REQUIRE(!front.empty());
  for (const auto& one : front) CHECK(one["parameters"].get<double>() <= 2000);
  const Outcome table = place.run({"best", "s.db", "--pareto"});
  CHECK(contains(table.out, "latency_ms"));
  CHECK(contains(table.out, "model.width="));
}

TEST_CASE("checkpoints of paused trials keep to resources.disk") {
  const Workplace place;
  place.write("s.yaml",
              "study: room\n"
              "data: { kind: synthetic, size: [8, 8], classes: 3, samples: "
              "200, difficulty: 0.8 }\n"
              "model: { arch: cnn-small, width: 32 }\n"
              "train: { epochs: 4, batch_size: 64 }\n"
              "sampler: random\n"
              "scheduler: { kind: asha, eta: 2, min_steps: 1 }\n"
              "budget: { trials: 12 }\n"
              "final: false\n"
              "resources: { slots: 1, disk: 2m }\n");
  const Outcome outcome = place.run({"run", "s.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const auto status =
      nlohmann::json::parse(place.run({"status", "s.db", "--json"}).out);
  int given_up = 0;
  for (const auto& trial : status["list"]) {
    given_up +=
        contains(trial["detail"].get<std::string>(), "resources.disk") ? 1 : 0;
  }
  CHECK(given_up >= 1);
  const Outcome replay = place.run({"replay", "s.db"});
  CHECK_MESSAGE(replay.code == 0, (replay.out + replay.err));
}
