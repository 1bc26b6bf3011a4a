// What the program says without running a study.
#include <regex>
#include <sstream>

#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr const char* kCommands[] = {
    "run",        "resume", "init",  "validate", "plan", "status",
    "best",       "show",   "ls",    "export",   "eval", "doctor",
    "completion", "agent",  "token", "worker"};

constexpr const char* kSynthetic =
    "study: tiny\n"
    "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 200 }\n"
    "model: { arch: cnn-small, width: 4 }\n"
    "train: { epochs: 2, batch_size: 32 }\n"
    "budget: { trials: 3 }\n";

}  // namespace

TEST_CASE("help lists the commands and hides the internal ones") {
  const Workplace place;
  const Outcome outcome = place.run({"--help"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "Usage: dtune COMMAND"));
  CHECK(contains(outcome.out, "  run "));
  CHECK_FALSE(contains(outcome.out, "  worker"));
  CHECK(place.run({"help"}).out == outcome.out);
  CHECK(place.run({}).code == 2);
}

TEST_CASE("every command has help with its options, nowhere wider than 80") {
  const Workplace place;
  for (const char* command : kCommands) {
    CAPTURE(command);
    const Outcome outcome = place.run({command, "--help"});
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK(contains(outcome.out, std::string("Usage: dtune ") + command));
    const size_t table = outcome.out.find("\nArguments:\n");
    CHECK((table == std::string::npos || outcome.out[table - 1] == '\n'));
    CHECK(contains(outcome.out, "--help"));
    CHECK(place.run({"help", command}).out == outcome.out);
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      CHECK(line.size() <= 80);
    }
  }
}

TEST_CASE("the version is a line of its own") {
  const Workplace place;
  CHECK(place.run({"--version"}).out.starts_with("dtune "));
}

TEST_CASE("the version as JSON says what the program was made from") {
  const Workplace place;
  const auto answer =
      nlohmann::json::parse(place.run({"--version", "--json"}).out);
  CHECK("dtune " + answer.at("version").get<std::string>() + "\n" ==
        place.run({"--version"}).out);
  CHECK(std::regex_search(answer.at("compiler").get<std::string>(),
                          std::regex("[A-Za-z]+ [0-9]+")));
  CHECK(answer.at("schema") > 0);
  const nlohmann::json& commit = answer.at("commit");
  CHECK((commit.is_null() || commit.get<std::string>().size() == 40));
  CHECK(answer.contains("libtorch"));
}

TEST_CASE(
    "misspelt commands and options are errors that suggest the right one") {
  const Workplace place;
  Outcome outcome = place.run({"stauts"});
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err ==
        "error: unknown command 'stauts', did you mean 'status'? (see dtune "
        "--help)\n");
  for (const char* word : {"train", "tune"}) {
    CHECK(contains(place.run({word, "x.yaml"}).err, "did you mean 'run'?"));
  }
  outcome = place.run({"run", "x.yaml", "--fersh"});
  CHECK(outcome.code == 2);
  CHECK(
      contains(outcome.err,
               "dtune run: unknown option '--fersh', did you mean '--fresh'?"));
}

TEST_CASE("an option of another command is an error that names what is meant") {
  const Workplace place;
  const auto error = [&place](const std::vector<std::string>& words) {
    const Outcome outcome = place.run(words);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(error({"run", "x.yaml", "--output=x.db"}) ==
        "error: dtune run: unknown option '--output', did you mean '--db'? "
        "(see dtune run --help)\n");
  CHECK(error({"simulate", "x.npz", "--db", "x"})
            .starts_with("error: dtune simulate: unknown option '--db'; it is "
                         "an option of dtune run, "));
  CHECK(error({"validate", "x.yaml", "--trials", "3"}) ==
        "error: dtune validate: unknown option '--trials'; write --set "
        "budget.trials=VALUE (see dtune validate --help)\n");
  CHECK(contains(error({"run", "x.yaml", "--epochs", "3"}),
                 "unknown option '--epochs'; write --set train.epochs=VALUE "));
  CHECK(contains(error({"run", "x.yaml", "-j2"}),
                 "unknown option '-j', did you mean '--slots'?"));
  CHECK(contains(error({"validate", "x.yaml", "--junit", "x"}),
                 "'--junit'; it is an option of dtune run, resume; --set "));
  CHECK(error({"ls", "--nonesuch"}) ==
        "error: dtune ls: unknown option '--nonesuch' (see dtune ls "
        "--help)\n");
}

TEST_CASE("what follows -- is no option") {
  const Workplace place;
  for (const char* command : {"best", "run", "report", "predict", "tell"}) {
    const Outcome outcome = place.run({command, "--", "-x.db", "-1"});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(!contains(outcome.err, "option"), outcome.err);
  }
  CHECK(contains(place.run({"best", "--", "-x.db"}).err,
                 "-x.db: there is no such file"));
  CHECK(contains(place.run({"best", "--", "-x.db", "--json"}).err,
                 "'--json' is one argument too many"));
}

TEST_CASE("missing, superfluous and malformed arguments are named") {
  const Workplace place;
  Outcome outcome = place.run({"run"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "dtune run: RECIPE is missing"));
  outcome = place.run({"best", "a.db", "b.db"});
  CHECK(contains(outcome.err, "'b.db' is one argument too many"));
  outcome = place.run({"run", "x.yaml", "--seed", "seven"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "--seed: 'seven' is not a whole number"));
  outcome = place.run({"run", "x.yaml", "--set", "epochs"});
  CHECK(outcome.code == 2);
  outcome = place.run({"export", "x.db", "--optuna"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err,
                 "dtune export: --optuna needs a value (--optuna FILE)"));
  outcome = place.run({"best", "x.db", "--pareto=3"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "dtune best: --pareto takes no value"));
  outcome = place.run({"run", "x.yaml", "--trials", "1", "--trials", "2"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "dtune run: --trials is given twice"));
}

TEST_CASE("a path that no file can have is not taken for a bug") {
  const Workplace place;
  place.write("shell.yaml", shell_recipe(1, 1, "0"));
  const Outcome outcome =
      place.run({"run", "shell.yaml", "--db", std::string(300, 'n') + ".db"});
  CHECK(outcome.code == 2);
  CHECK_MESSAGE(contains(outcome.err, "nn.db: File name too long (check the"),
                outcome.err);
}

TEST_CASE("errors are JSON on stdout with --json") {
  const Workplace place;
  const Outcome outcome = place.run({"status", "nothing.db", "--json"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "error: nothing.db: there is no such file"));
  const auto document = nlohmann::json::parse(outcome.out);
  CHECK(document["error"]["kind"] == "config");
  CHECK(document["error"]["exit_code"] == 2);
}

TEST_CASE("errors are red on a terminal alone, and never with NO_COLOR") {
  const Workplace place;
  CHECK_FALSE(contains(place.run({"rnu"}).err, "\x1b["));
}

TEST_CASE("init writes recipes that validate, and never overwrites one") {
  const Workplace place;
  for (const char* kind : {"fashion-mnist", "command"}) {
    CAPTURE(kind);
    const std::string file = std::string(kind) + ".yaml";
    CHECK(place.run({"init", kind}).code == 0);
    CHECK(place.has(file));
    const Outcome checked = place.run({"validate", file});
    CHECK(checked.code == 0);
    CHECK(checked.out == file + ": ok\n");
  }
  place.write("command.yaml", "mine");
  const Outcome refused = place.run({"init", "command"});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "command.yaml: exists already (--force"));
  CHECK(place.read("command.yaml") == "mine");
  CHECK(place.run({"init", "command", "--force"}).code == 0);
  CHECK(place.read("command.yaml") != "mine");
  CHECK(contains(place.run({"init", "comand"}).err, "did you mean 'command'"));
}

TEST_CASE("a written recipe's comments name no file that is not there") {
  const Workplace place;
  const std::regex file("[A-Za-z0-9_./-]+\\.(yaml|md)");
  for (const char* kind : {"fashion-mnist", "cifar10", "npz", "folder",
                           "synthetic", "command", "layers", "ci"}) {
    CAPTURE(kind);
    REQUIRE(place.run({"init", kind, "mine.yaml", "--force"}).code == 0);
    const std::string text = place.read("mine.yaml");
    for (std::sregex_iterator at(text.begin(), text.end(), file), end;
         at != end; ++at) {
      CHECK(at->str() == "mine.yaml");
    }
  }
  const std::string shown = place.run({"init", "folder", "-"}).out;
  CHECK(contains(shown, "dtune run folder.yaml"));
}

TEST_CASE("a tab in a recipe is called a tab") {
  const Workplace place;
  place.write("tab.yaml", "study: tab\ntrain:\n\tepochs: 3\n");
  const Outcome outcome = place.run({"validate", "tab.yaml"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "tab.yaml:3:1: the line is indented with a tab"));
}

TEST_CASE("an expectation can be set on the command line") {
  const Workplace place;
  place.write("tiny.yaml", kSynthetic);
  for (const char* set :
       {"expect.val_accuracy=>= 0.9", "expect.val_accuracy=>0.9",
        "expect.val_loss=< 2", "expect.val_loss=\">= 0\""}) {
    CAPTURE(set);
    const Outcome outcome = place.run({"plan", "tiny.yaml", "--set", set});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(contains(outcome.out, "expects    val_"));
  }
  CHECK(contains(
      place
          .run({"validate", "tiny.yaml", "--set", "expect.val_accuracy=> much"})
          .err,
      "must be a comparison"));
}

TEST_CASE("samplers and schedulers are refused at their place") {
  if (!kTrains) return skip(kNoTorch);
  const Workplace place;
  place.write("typo.yaml", "seed: 1\nsampler: sobl\n");
  place.write("option.yaml",
              "sampler: sobol\nscheduler:\n  kind: asha\n  eat: 3\n");
  for (const char* command : {"validate", "plan", "run"}) {
    CAPTURE(command);
    const Outcome typo =
        place.run({command, "typo.yaml", "--set", "data=synthetic"});
    CHECK(typo.code == 2);
    CHECK_MESSAGE(contains(typo.err,
                           "error: typo.yaml:2:10: sampler.kind: unknown "
                           "sampler 'sobl', did you mean 'sobol'?"),
                  typo.err);
    CHECK(contains(typo.err, "\n  sampler: sobl\n           ^\n"));
  }
  const Outcome option = place.run({"validate", "option.yaml", "--json"});
  CHECK(nlohmann::json::parse(option.out)["error"]["problems"][0]["where"] ==
        "option.yaml:4:8");
}

TEST_CASE("validate shows every problem with its place") {
  const Workplace place;
  place.write("bad.yaml",
              "study: bad\ntrain: { lerning_rate: 3, epochs: many }\n");
  const Outcome outcome = place.run({"validate", "bad.yaml", "--json"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "bad.yaml:2:10"));
  CHECK(contains(outcome.err, "lerning_rate"));
  const auto document = nlohmann::json::parse(outcome.out);
  CHECK(document["error"]["problems"].size() == 2);
}

TEST_CASE("plan shows data, model, space, schedule and budget") {
  const Workplace place;
  place.write("tiny.yaml", kSynthetic);
  const Outcome outcome = place.run({"plan", "tiny.yaml"});
  CHECK(outcome.code == 0);
  for (const char* part :
       {"180 training, 20 validation", "3x8x8", "cnn-small", "conv1", "lr",
        "freeze-thaw", "3 trials", "tiny.db"}) {
    CAPTURE(part);
    const bool there =
        contains(outcome.out, part) ||
        (std::string(part) == "3x8x8" && contains(outcome.out, "1x8x8"));
    CHECK(there);
  }
  const auto document =
      nlohmann::json::parse(place.run({"plan", "tiny.yaml", "--json"}).out);
  CHECK(document["data"]["training"] == 180);
  CHECK(document["horizon"] == 2);
  CHECK(document["model"]["parameters"] > 100);
  CHECK(document["budget"]["trials"] == 3);
  CHECK_FALSE(place.has("tiny.db"));
}

TEST_CASE("plan says why the learnt prior takes no part, where it takes none") {
  const Workplace place;
  place.write("tiny.yaml", kSynthetic);
  const std::string said = "the learnt prior takes no part";
  CHECK_FALSE(contains(place.run({"plan", "tiny.yaml"}).out, said));
  CHECK_FALSE(contains(
      place.run({"plan", "tiny.yaml", "--set", "train.optimizer=adam"}).out,
      said));
  const std::vector<std::string> other = {
      "plan", "tiny.yaml", "--set",
      "space={ lr: 0.1, l2: 0, dropout: 0, train.momentum: { linear: [0.5, "
      "0.99] } }"};
  const Outcome outcome = place.run(other);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, said +
                                  ": the space has neither learning rate nor "
                                  "L2 nor dropout"));
  std::vector<std::string> as_json = other;
  as_json.emplace_back("--json");
  const auto document = nlohmann::json::parse(place.run(as_json).out);
  CHECK(contains(document["without_learnt_prior"].get<std::string>(),
                 "learning rate"));
  CHECK_FALSE(
      contains(place
                   .run({"plan", "tiny.yaml", "--set", "train.optimizer=adam",
                         "--set", "sampler=tpe", "--set", "scheduler=asha"})
                   .out,
               said));
}

TEST_CASE("missing data end in one message with a remedy and exit code 2") {
  if (!kTrains) return skip(kNoTorch);
  const Workplace place;
  place.write("lost.yaml",
              "study: lost\ndata: { kind: folder, path: nowhere }\n"
              "budget: { trials: 1 }\n");
  for (const char* command : {"plan", "run"}) {
    const Outcome outcome = place.run({command, "lost.yaml"});
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, "nowhere"));
    CHECK(outcome.err.starts_with("error: "));
  }
  CHECK_FALSE(place.has("lost.db"));
}

TEST_CASE("commands that want a study say how to get one") {
  const Workplace place;
  place.write("tiny.yaml", kSynthetic);
  const Outcome outcome = place.run({"status", "tiny.yaml"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "has not been run yet"));
  CHECK(contains(outcome.err, "start with 'dtune run tiny.yaml',"));
  place.write("my tiny.yaml", kSynthetic);
  CHECK(contains(place.run({"status", "my tiny.yaml"}).err,
                 "start with `dtune run 'my tiny.yaml'`, or"));
  place.write("other.db", "no database at all, but long enough to be one");
  CHECK(place.run({"status", "other.db"}).code == 3);
  CHECK(place.run({"run", "tiny.yaml", "--db", "other.db"}).code == 3);
  CHECK(place.read("other.db").starts_with("no database"));
  CHECK(place.run({"status", "."}).code == 2);
}

TEST_CASE("completion scripts are accepted by their shells") {
  const Workplace place;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    const Outcome outcome = place.run({"completion", shell});
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "resume"));
    CHECK_FALSE(contains(outcome.out, "worker"));
  }
  place.write("complete.sh", place.run({"completion", "bash"}).out +
                                 "COMP_WORDS=(dtune run --fr) COMP_CWORD=2\n"
                                 "_dtune; echo \"${COMPREPLY[*]}\"\n"
                                 "COMP_WORDS=(dtune st) COMP_CWORD=1\n"
                                 "_dtune; echo \"${COMPREPLY[*]}\"\n"
                                 "COMP_WORDS=(dtune run ti) COMP_CWORD=2\n"
                                 "_dtune; echo \"${COMPREPLY[*]}\"\n"
                                 "COMP_WORDS=(dtune eval x --split v) "
                                 "COMP_CWORD=4\n"
                                 "_dtune; echo \"${COMPREPLY[*]}\"\n");
  place.write("tiny.yaml", "");
  place.write("tiny.txt", "");
  const std::string line = "cd '" + place.path().string() +
                           "' && bash complete.sh > out.txt 2> err.txt";
  CHECK(std::system(line.c_str()) == 0);
  CHECK(place.read("out.txt") == "--fresh\nstatus\ntiny.yaml\nvalidation\n");
  CHECK(contains(place.run({"completion", "tcsh"}).err, "bash, zsh or fish"));
}

TEST_CASE("commands that show an empty folder or study succeed") {
  const Workplace place;
  const Outcome outcome = place.run({"ls"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.err, "no studies"));
  CHECK(nlohmann::json::parse(place.run({"ls", "--json"}).out).empty());
  CHECK(place.run({"ls", "nowhere"}).code == 2);
}

TEST_CASE("without the library that trains, a run says so and leaves nothing") {
  Workplace place;
  place.write("r.yaml", kSynthetic);
  place.environment["DTUNE_LIBRARY_PATH"] = "/nowhere";
  CHECK(place.run({"plan", "r.yaml"}).code == 0);
  const Outcome outcome = place.run({"run", "r.yaml", "--quiet"});
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.err, "install the package dtune-train"));
  CHECK_FALSE(place.has("r.db"));
}
