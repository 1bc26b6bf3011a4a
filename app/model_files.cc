#include "app/model_files.h"

#include "app/study_files.h"
#include "app/study_loader.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/base/safetensors.h"
#include "dtune/report/text.h"

namespace dtune {

namespace fs = std::filesystem;

namespace {

// It has the metrics that the study has recorded: its own, not what another
// study has put there since.
bool is_model_of(const FinalResult& result, const fs::path& model) {
  try {
    const SafetensorsFile file(model);
    const auto found = file.metadata().find("metrics");
    if (found == file.metadata().end()) return false;
    nlohmann::json metrics = nlohmann::json::object();
    for (const auto& [name, value] : result.metrics) metrics[name] = value;
    return try_parse_json(found->second) == metrics;
  } catch (const Error&) {  // whatever lies there by now
    return false;
  }
}

// Of a study whose database was moved: what it wrote, where that is still it.
fs::path model_written(const LoadedStudy& study) {
  const auto& result = study.facts.result;
  if (!result || !fs::exists(result->model)) return {};
  if (!is_model_of(*result, result->model)) return {};
  return result->model;
}

// What a user can do where no model was written.
std::string way_to_model(const LoadedStudy& study, const std::string& name) {
  const auto command = [&](const char* words, const char* more = "") {
    return quoted_command(
        fmt::format("dtune {} {}{}", words, shell_quoted(name), more));
  };
  if (study.recipe.recipe().command) {
    return "a study of a program has none: its best point is shown by " +
           command("best");
  }
  if (study.study.state == StudyState::running) {
    return fmt::format(
        "the study is running and writes it at its end: follow it with {}",
        command("status", " --watch"));
  }
  if (!study.recipe.recipe().final_training.enabled) {
    return fmt::format(
        "the recipe says final: false: {} prints a recipe that trains the best "
        "point",
        command("best", " --recipe"));
  }
  return "let the study finish: " + command("resume");
}

std::string why_no_model(const LoadedStudy& study, const fs::path& beside,
                         const std::string& name) {
  const auto& result = study.facts.result;
  if (result && !result->model.empty()) {
    return fmt::format(
        "{}: its model is missing: it is neither {} nor {} (keep {} beside the "
        "database)",
        name, beside.string(), result->model,
        beside.parent_path().filename().string());
  }
  return fmt::format("{}: has no model yet: there is no {} ({})", name,
                     beside.string(), way_to_model(study, name));
}

}  // namespace

fs::path find_model(const std::string& name) {
  fs::path path = name;
  if (path.extension() == ".safetensors") {
    if (fs::exists(path)) return path;
    throw Error(ErrorKind::config,
                fmt::format("{}: there is no such file ('dtune best' shows "
                            "where a study's model is)",
                            name));
  }
  const fs::path database = find_database(name);
  fs::path model = files_of(database).model();
  if (fs::exists(model)) return model;
  if (!is_database(database)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: is neither a model nor a study (name a "
                            "model.safetensors, a study's .db or its recipe)",
                            name));
  }
  const LoadedStudy study = load_study(database, StoreMode::read_only);
  fs::path written = model_written(study);
  if (!written.empty()) return written;
  throw Error(ErrorKind::config, why_no_model(study, model, name));
}

NamedModel open_model(const std::string& name) {
  const fs::path path = find_model(name);
  ModelMetadata metadata = read_model_metadata(SafetensorsFile(path));
  RecipeFile recipe = RecipeFile::parse_stored(
      metadata.recipe, path.string(), fs::absolute(path).parent_path());
  return {path, std::move(metadata), std::move(recipe)};
}

}  // namespace dtune
