// dtune ask, dtune tell: for programs that run trials themselves.

#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <thread>

#include "app/command.h"
#include "app/overrides.h"
#include "app/study_check.h"
#include "app/study_history.h"
#include "app/study_loader.h"
#include "app/study_start.h"
#include "app/study_tuner.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/base/text.h"
#include "dtune/cluster/ask_tell.h"
#include "dtune/report/json.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct AskOptions {
  std::string study;
  std::string database;
  std::vector<std::string> set;
  std::string patience = "1m";
};

struct TellOptions {
  std::string study;
  std::vector<std::string> words;  // TRIAL METRIC=VALUE ..., or -
  std::optional<uint64_t> attempt;
  std::optional<uint64_t> step;
  bool last = false;
  std::vector<std::string> failed;  // why; several: all are kept
  std::vector<std::string> invalid;
  std::vector<std::string> lost;
  std::string patience = "1m";
};

// Several may ask at once: each has the study for itself for a moment.
LoadedStudy open_patiently(const fs::path& database, const std::string& text) {
  const MonoTime until = system_clock().now() + parse_duration(text);
  while (true) {
    try {
      return load_study(database, StoreMode::open);
    } catch (const Error& error) {
      const bool busy = error.kind() == ErrorKind::temporary;
      if (!busy || system_clock().now() >= until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

struct AskedStudy {
  fs::path database;
  std::optional<RecipeFile> file;  // that was named
};

// A database has its recipe and its place.
void check_recipe_options(const AskOptions& options) {
  if (options.set.empty() && options.database.empty()) return;
  throw Error(
      ErrorKind::config,
      fmt::format("dtune ask: {} goes with a recipe, not with a "
                  "database (name the recipe in place of {})",
                  options.set.empty() ? "--db" : "--set", options.study));
}

// The study of a recipe, made where there is none; of several processes
// at once one makes it.
AskedStudy study_to_ask(const Console& console, const AskOptions& options) {
  if (is_database(options.study)) {
    check_recipe_options(options);
    return {options.study, {}};
  }
  const fs::path path = find_recipe(options.study);
  fs::path database = options.database.empty() ? default_database(path).path
                                               : fs::path(options.database);
  const RecipeFile file =
      load_for_study(path, parse_overrides(options.set), database);
  const MonoTime until =
      system_clock().now() + parse_duration(options.patience);
  while (true) {
    try {
      if (!holds_study(database)) {
        create_study(database, path, file, check_study(console, file, false));
      }
      return {database, file};
    } catch (const Error& error) {
      // Another process may have made the study meanwhile.
      const bool busy =
          error.kind() == ErrorKind::temporary || holds_study(database);
      if (!busy || system_clock().now() >= until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// What the recipe says now counts, as for dtune run.
void adopt_changes(LoadedStudy& loaded, const RecipeFile& file) {
  check_same_study(loaded, file, "ask");
  if (file.resolved_yaml() == loaded.row.recipe_yaml) return;
  if (adopt_recipe(loaded, file)) {
    loaded.study.state = loaded.row.state = StudyState::running;
  }
  loaded.store->put_study(loaded.row);
}

LoadedStudy open_to_ask(const Console& console, const AskOptions& options) {
  const AskedStudy asked = study_to_ask(console, options);
  LoadedStudy loaded = open_patiently(asked.database, options.patience);
  if (asked.file) adopt_changes(loaded, *asked.file);
  return loaded;
}

// A study that is open for one question or answer.
class OpenStudy {
 public:
  explicit OpenStudy(LoadedStudy loaded)
      : loaded_(std::move(loaded)),
        tuner_(make_tuner(loaded_.study.recipe, loaded_.study.horizon,
                          tuner_options(loaded_.study.recipe))),
        session_(loaded_.study, *loaded_.store, *tuner_.sampler,
                 *tuner_.scheduler, sink_, system_clock()) {}

  const Study& study() const { return loaded_.study; }
  AskTell& session() { return session_; }
  // What was said is safe: only then is it printed.
  void commit() { loaded_.store->flush(); }

 private:
  LoadedStudy loaded_;
  Tuner tuner_;
  ProgressSink sink_;
  AskTell session_;
};

Json params_of(const Point& point) {
  Json params = Json::object();
  for (const auto& [name, value] : point) {
    std::visit([&, key = name](const auto& v) { params[key] = v; }, value);
  }
  return params;
}

Json answer_json(const Study& study, const AskAnswer& answer) {
  if (answer.kind != AskAnswer::Kind::trial) {
    const bool over = answer.kind == AskAnswer::Kind::finished;
    return {{"trial", nullptr}, {"finished", over}, {"why", answer.why}};
  }
  const Trial& trial = study.trial(answer.trial);
  Json json = {{"trial", trial.id},
               {"attempt", trial.attempt},
               {"params", params_of(trial.point)},
               {"seed", fmt::format("{:#x}", trial.seed)},
               {"from_step", trial.steps()}};
  const bool open = study.horizon == kOpenHorizon;
  json["to_step"] = open ? Json() : Json(trial.target_step);
  json["horizon"] = open ? Json() : Json(study.horizon);
  json["why"] = answer.why;
  return json;
}

int ask(const Console& console, const AskOptions& options) {
  OpenStudy open(open_to_ask(console, options));
  const AskAnswer answer = open.session().ask();
  open.commit();
  console.line(json_text(answer_json(open.study(), answer)));
  switch (answer.kind) {
    case AskAnswer::Kind::trial:
      return kExitOk;
    case AskAnswer::Kind::wait:
      return kExitTemporary;
    case AskAnswer::Kind::finished:
      return kExitExpectationFailed;
  }
  return kExitOk;
}

double metric_value(const std::string& word, const std::string& text) {
  if (const auto value = parse_number<double>(text)) return *value;
  throw Error(
      ErrorKind::config,
      fmt::format("'{}' is not METRIC=NUMBER (write e.g. val_loss=0.31)",
                  word));
}

int64_t trial_in(const std::string& text) {
  if (const auto id = parse_number<int64_t>(text)) return *id;
  throw Error(ErrorKind::config,
              fmt::format("'{}' is not a trial's number (dtune tell STUDY 7 "
                          "val_loss=0.31)",
                          text));
}

// "step=3", as a program of `command:` prints it.
int step_in(const std::string& word) {
  const auto step = parse_number<int>(word.substr(word.find('=') + 1));
  if (step && *step >= 1) return *step;
  throw Error(ErrorKind::config,
              fmt::format("'{}' is not a step (write e.g. step=3)", word));
}

void set_outcome(Told& told, Told::Outcome outcome,
                 const std::vector<std::string>& why) {
  if (why.empty()) return;
  if (told.outcome != Told::Outcome::report) {
    throw Error(ErrorKind::config,
                "a trial has one outcome: failed, invalid or lost (keep one)");
  }
  told.outcome = outcome;
  told.detail = fmt::format("{}", fmt::join(why, "; "));
  if (told.detail.empty()) told.detail = "(no reason)";
}

Told told_by_words(const TellOptions& options) {
  Told told;
  told.trial = trial_in(options.words[0]);
  told.attempt = static_cast<Attempt>(options.attempt.value_or(0));
  told.step = static_cast<int>(options.step.value_or(0));
  told.last = options.last;
  for (size_t i = 1; i < options.words.size(); ++i) {
    const std::string& word = options.words[i];
    const size_t equals = word.find('=');
    if (word.starts_with("step=")) {
      told.step = step_in(word);
      continue;
    }
    const double value = metric_value(
        word, equals == std::string::npos ? "" : word.substr(equals + 1));
    if (!told.metrics.emplace(word.substr(0, equals), value).second) {
      throw Error(ErrorKind::config,
                  fmt::format("'{}' gives {} a second value (keep one)", word,
                              word.substr(0, equals)));
    }
  }
  set_outcome(told, Told::Outcome::failed, options.failed);
  set_outcome(told, Told::Outcome::invalid, options.invalid);
  set_outcome(told, Told::Outcome::lost, options.lost);
  return told;
}

int count_in(const Json& json, int least) {
  const auto value = json.get<double>();
  const bool counts = value >= least &&
                      value <= std::numeric_limits<int>::max() &&
                      value == std::floor(value);
  if (counts) return static_cast<int>(value);
  throw Error(ErrorKind::config,
              fmt::format("{} is not a whole number of {} or more",
                          json_text(json), least));
}

// None where the key is left out or null.
std::vector<std::string> why_in(const Json& json, const char* outcome) {
  const auto why = json.find(outcome);
  if (why == json.end() || why->is_null()) return {};
  return {why->get<std::string>()};
}

// {"trial": 7, "step": 3, "metrics": {"val_loss": 0.3}}; null: not a number.
Told told_by_json(const std::string& line, int number) {
  try {
    const Json json = parse_ordered_json(line);
    Told told;
    told.trial = count_in(json.at("trial"), 1);
    told.attempt = count_in(json.value("attempt", Json(0)), 0);
    if (json.contains("step")) told.step = count_in(json.at("step"), 1);
    told.last = json.value("last", false);
    const Json metrics = json.value("metrics", Json::object());
    for (const auto& [name, value] : metrics.items()) {
      told.metrics[name] = value.is_null() ? std::nan("") : value.get<double>();
    }
    set_outcome(told, Told::Outcome::failed, why_in(json, "failed"));
    set_outcome(told, Told::Outcome::invalid, why_in(json, "invalid"));
    set_outcome(told, Told::Outcome::lost, why_in(json, "lost"));
    return told;
  } catch (const std::exception& error) {
    std::string_view what = error.what();
    // The JSON library begins with "[json.exception.NAME.NUMBER] ".
    if (what.starts_with("[json.")) what.remove_prefix(what.find(']') + 2);
    throw Error(ErrorKind::config,
                fmt::format("stdin:{}:1: {} (a line is such as {{\"trial\": 7, "
                            "\"metrics\": {{\"val_loss\": 0.3}}}})",
                            number, what));
  }
}

std::vector<Told> read_lines() {
  std::vector<Told> all;
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    all.push_back(told_by_json(line, number));
  }
  return all;
}

Json answer_json(const Trial& trial, const TellAnswer& answer) {
  return {{"trial", trial.id},
          {"attempt", trial.attempt},
          {"counted", answer.counted},
          {"state", to_string(trial.state)},
          {"go_on", answer.go_on},
          {"step", trial.steps()},
          {"to_step", answer.go_on ? Json(trial.target_step) : Json()},
          {"why", trial.detail}};
}

int tell(const Console& console, const TellOptions& options) {
  const bool lines = options.words[0] == "-";
  const std::vector<Told> all =
      lines ? read_lines() : std::vector<Told>{told_by_words(options)};
  OpenStudy open(
      open_patiently(find_database(options.study), options.patience));
  for (const Told& told : all) {
    const TellAnswer answer = open.session().tell(told);
    open.commit();
    console.line(
        json_text(answer_json(open.study().trial(told.trial), answer)));
  }
  return kExitOk;
}

constexpr const char* kJsonHelp =
    "An error as JSON, too; the answer always is.";
constexpr const char* kPatienceHelp =
    "How long to wait while others ask or tell (default 1m).";

}  // namespace

Action declare_ask(Arguments& arguments) {
  auto options = std::make_shared<AskOptions>();
  arguments.describe(
      "Prints the next point to try, as JSON, and marks it as being tried: for "
      "programs that run trials themselves, one or many at a time, on any "
      "machines. 'dtune tell' reports the outcome. The study is the database; "
      "the first call creates it from a recipe, in which "
      "'command: { run: none }' stands for your own program.\n\nExit codes: 0 "
      "there is a trial, 75 none before another was reported, 1 none any more: "
      "the search is over.");
  arguments.positional("STUDY", options->study, "The recipe or the database.",
                       Complete::study, true);
  arguments.option("--set", options->set, "KEY=VALUE",
                   "Override a key of the recipe; may be given several times.");
  arguments.option("--db", options->database, "FILE",
                   "The study's database (default: beside the recipe, its "
                   "name with .db).",
                   Complete::file);
  arguments.option("--patience", options->patience, "TIME", kPatienceHelp);
  arguments.json(kJsonHelp);
  arguments.example("dtune ask s.yaml", "the next point");
  arguments.example("point=$(dtune ask s.yaml) && train \"$point\"",
                    "in a shell");
  return [options](const Console& console) { return ask(console, *options); };
}

Action declare_tell(Arguments& arguments) {
  auto options = std::make_shared<TellOptions>();
  arguments.describe(
      "Reports the outcome of a trial of 'dtune ask', and prints as JSON "
      "whether to go on with it. Without --step it is the next one; of a study "
      "without "
      "steps it is the trial's result. With - reports are read from standard "
      "input, a JSON object per line: {\"trial\": 7, \"step\": 3, "
      "\"metrics\": {\"val_loss\": 0.3}}; further keys: attempt, last, failed, "
      "invalid, lost.");
  arguments.positional("STUDY", options->study, "The recipe or the database.",
                       Complete::study, true);
  arguments.positionals("REPORT", options->words,
                        "TRIAL METRIC=NUMBER ..., or - for standard input.",
                        Complete::nothing);
  arguments.option("--attempt", options->attempt, "N",
                   "The attempt that 'dtune ask' printed; reports of earlier "
                   "attempts are dropped.");
  arguments.option("--step", options->step, "N",
                   "The step after which it was measured, the first is 1; or "
                   "step=N among the metrics.",
                   NumberRange{.least = 1});
  arguments.flag("--last", options->last, "The trial has ended by itself.");
  arguments.option("--failed", options->failed, "WHY",
                   "The trial failed, for instance by a crash.");
  arguments.option("--invalid", options->invalid, "WHY",
                   "The point is invalid; the trial does not count.");
  arguments.option("--lost", options->lost, "WHY",
                   "The trial could not be run; 'dtune ask' gives it again.");
  arguments.option("--patience", options->patience, "TIME", kPatienceHelp);
  arguments.json(kJsonHelp);
  arguments.example("dtune tell s.db 7 val_loss=0.31 --step 3", "one report");
  arguments.example("dtune tell s.db 7 --failed 'out of memory'",
                    "it has no result");
  return [options](const Console& console) { return tell(console, *options); };
}

}  // namespace dtune
