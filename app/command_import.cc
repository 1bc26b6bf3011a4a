// dtune import: what other programs have tuned, as a warm start.

#include <memory>

#include "app/command.h"
#include "app/study_files.h"
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/base/suggest.h"
#include "dtune/report/optuna_import.h"
#include "dtune/report/text.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct ImportOptions {
  std::string optuna;
  std::string study;
  std::string output;
  bool force = false;
};

std::vector<std::string> optuna_names(const std::vector<OptunaStudy>& studies) {
  std::vector<std::string> names;
  for (const OptunaStudy& study : studies) names.push_back(study.name);
  return names;
}

const OptunaStudy& choose_optuna_study(const std::vector<OptunaStudy>& studies,
                                       const ImportOptions& options) {
  const std::vector<std::string> names = optuna_names(studies);
  if (studies.empty()) {
    throw Error(ErrorKind::data,
                fmt::format("{}: holds no study", options.optuna));
  }
  if (options.study.empty() && studies.size() == 1) return studies.front();
  for (const OptunaStudy& study : studies) {
    if (study.name == options.study) return study;
  }
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + printable(name);
  }
  throw Error(
      ErrorKind::config,
      options.study.empty()
          ? fmt::format("{}: holds {} studies (choose one with --study: {})",
                        options.optuna, studies.size(), list)
          : fmt::format("--study: there is no '{}' in {}{} (it holds {})",
                        options.study, options.optuna,
                        did_you_mean(options.study, names), list));
}

// Its database, which is named as the recipe is, has to be another file.
fs::path recipe_file(const ImportOptions& options) {
  const fs::path storage = options.optuna;
  if (options.output.empty()) {
    return storage.stem().string() + "-dtune.yaml";
  }
  fs::path recipe = options.output;
  std::error_code ignored;
  if (fs::equivalent(fs::path(recipe).replace_extension(".db"), storage,
                     ignored)) {
    throw Error(ErrorKind::config,
                fmt::format("--output: the database of {} would be {} itself "
                            "(choose another name)",
                            recipe.string(), storage.string()));
  }
  return recipe;
}

int import_from_optuna(const Console& console, const ImportOptions& options) {
  if (options.optuna.empty()) {
    throw Error(ErrorKind::config,
                "dtune import: needs --optuna FILE (see dtune import --help)");
  }
  const std::vector<OptunaStudy> studies = read_optuna(options.optuna);
  const OptunaStudy& study = choose_optuna_study(studies, options);
  const fs::path recipe = recipe_file(options);
  const fs::path table = fs::path(recipe).replace_extension(".csv");
  // No recipe of the user's is overwritten, and no study even by --force.
  for (const fs::path& file : {recipe, table}) {
    refuse_to_overwrite(file, options.force,
                        "name another recipe with --output");
  }
  const OptunaImport imported = import_optuna(study, table.filename().string());
  write_file_atomic(table, imported.table, false);
  write_file_atomic(recipe, imported.recipe, false);
  for (const std::string& name : imported.renamed) {
    console.notice(fmt::format("renamed {}", printable(name)));
  }
  for (const std::string& condition : imported.conditions) {
    console.notice(
        fmt::format("{} (so in all results; correct it in {} where "
                    "your program decides otherwise)",
                    printable(condition), recipe.string()));
  }
  for (const std::string& without : imported.unexplained) {
    console.warning(fmt::format(
        "{} are without it, for no reason that they show (give it its 'when' "
        "in {}: until then they are not part of the warm start)",
        printable(without), recipe.string()));
  }
  const std::string word = shell_quoted(recipe.string());
  console.line(fmt::format(
      "wrote {} ({} of {} trials have results) and {}\n"
      "next: dtune ask {}, or name your program in it and dtune run {}",
      table.string(), imported.results, imported.trials, recipe.string(), word,
      word));
  return kExitOk;
}

}  // namespace

Action declare_import(Arguments& arguments) {
  auto options = std::make_shared<ImportOptions>();
  arguments.describe(
      "Goes on with what another program has tuned: writes its trials as a "
      "table for 'warm_start:', and a recipe with the same space and "
      "objective that names the table. Of Optuna: the SQLite file or journal "
      "of a storage, of versions 3 to 5, of a study with one objective. Trials "
      "that failed or were not finished are left out.");
  arguments.option("--optuna", options->optuna, "FILE",
                   "The storage of Optuna.", Complete::file);
  arguments.option("--study", options->study, "NAME",
                   "Which of its studies (needed where there are several).");
  arguments.option("--output", options->output, "FILE",
                   "The recipe (default: STORAGE-dtune.yaml, here); the table "
                   "lies beside it.",
                   Complete::file);
  arguments.flag("--force", options->force, "Overwrite both files.");
  arguments.example("dtune import --optuna optuna.db",
                    "optuna-dtune.csv, and optuna-dtune.yaml to go on with");
  return [options](const Console& console) {
    return import_from_optuna(console, *options);
  };
}

}  // namespace dtune
