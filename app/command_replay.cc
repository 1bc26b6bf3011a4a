// dtune replay: takes every decision of a study again, and compares.

#include <filesystem>
#include <memory>

#include "app/command.h"
#include "app/study_files.h"
#include "app/study_tuner.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/config/recipe_file.h"
#include "dtune/report/facts.h"
#include "dtune/review/replay.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct ReplayCommand {
  std::string study;
};

// "start trial 5 up to step 3 at lr=0.1", "go on".
std::string words_of(const Study& study, const Choice& choice) {
  std::string text = choice.action;
  if (choice.trial != 0) text += fmt::format(" with trial {}", choice.trial);
  if (choice.target_step > 0 && choice.target_step < kOpenHorizon) {
    text += fmt::format(" to step {}", choice.target_step);
  }
  if (!choice.point.empty()) {
    text += " at " + describe_point(study, choice.point);
  }
  if (!choice.why.empty()) text += ": " + printable(choice.why);
  return text;
}

ordered_json json_of(const Choice& choice) {
  ordered_json object = {
      {"action", choice.action},
      {"trial",
       choice.trial == 0 ? ordered_json() : ordered_json(choice.trial)},
      {"target_step", choice.target_step},
      {"why", choice.why}};
  if (choice.point.empty()) return object;
  for (const auto& [name, value] : choice.point) {
    object["params"][name] =
        std::visit([](const auto& held) { return ordered_json(held); }, value);
  }
  return object;
}

std::string text_of(const Study& study, const std::string& database,
                    const ReplayResult& result) {
  if (!result.difference) {
    return fmt::format(
        "{}: all the same: {} recorded decisions of {} run{}; {} choices for a "
        "free slot and {} judgements of reports, those that changed nothing "
        "among them, were taken again\n",
        database, result.decisions, result.sessions,
        result.sessions == 1 ? "" : "s", result.asked, result.judged);
  }
  const ReplayDifference& found = *result.difference;
  return fmt::format(
      "{}: decision {} differs (after report {}, trial {} at step {})\n"
      "  recorded  {}\n"
      "  now       {}\n",
      database, found.decision, found.after_report, found.recorded.trial,
      found.step, words_of(study, found.recorded),
      words_of(study, found.taken));
}

std::string document_of(const StudyRecords& records,
                        const std::string& database,
                        const ReplayResult& result) {
  ordered_json document = {
      {"study", records.row->name},  {"id", records.row->id},
      {"database", database},        {"same", !result.difference.has_value()},
      {"sessions", result.sessions}, {"decisions", result.decisions},
      {"asked", result.asked},       {"judged", result.judged},
      {"difference", nullptr}};
  if (result.difference) {
    document["difference"] = {
        {"decision", result.difference->decision},
        {"after_report", result.difference->after_report},
        {"step", result.difference->step},
        {"recorded", json_of(result.difference->recorded)},
        {"taken", json_of(result.difference->taken)}};
  }
  return json_text(document, 2);
}

int replay_study(const Console& console, const ReplayCommand& command) {
  const fs::path path = find_database(command.study);
  const std::string name = short_path(path);
  const StudyRecords records =
      open_sqlite_store(path, StoreMode::read_only)->load_records();
  if (!records.row) {
    throw Error(ErrorKind::store,
                fmt::format("{}: holds no study yet ('dtune run' with its "
                            "recipe starts one)",
                            name));
  }
  const fs::path directory = fs::path(records.row->recipe_path).parent_path();
  ReplayOptions options;
  options.parse_recipe = [&](const std::string& yaml) {
    return RecipeFile::parse_stored(yaml, name + ": recipe", directory)
        .recipe();
  };
  options.make_tuner = tuner_of;
  ReplayResult result;
  try {
    result = replay(records, options);
  } catch (const Error& error) {
    const bool of_records =
        error.kind() == ErrorKind::store || error.kind() == ErrorKind::data;
    if (!of_records) throw;
    throw Error(error.kind(), fmt::format("{}: {}", name, error.what()));
  }
  if (console.json) {
    console.line(document_of(records, name, result));
  } else {
    Study study;
    study.recipe = options.parse_recipe(records.row->recipe_yaml);
    console.print(text_of(study, name, result));
  }
  return result.difference ? kExitExpectationFailed : kExitOk;
}

}  // namespace

Action declare_replay(Arguments& arguments) {
  auto command = std::make_shared<ReplayCommand>();
  arguments.describe(
      "Rebuilds a study from its records, asks its sampler and scheduler again "
      "wherever the coordinator did, and compares what they decide now with "
      "what was recorded: the action, the trial, its point and the step up to "
      "which it may train. Trains nothing and changes nothing.\n\nExit codes: "
      "0 all decisions are the same, 1 one differs (it is shown), 3 the "
      "records cannot be replayed.");
  arguments.study(command->study);
  arguments.json();
  arguments.example("dtune replay recipe.db",
                    "does this dtune decide as the one that ran it?");
  return [command](const Console& console) {
    return replay_study(console, *command);
  };
}

}  // namespace dtune
