// dtune eval: judges a model file again.

#include <memory>

#include "app/command.h"
#include "app/model_files.h"
#include "app/seen_data.h"
#include "app/study_check.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/base/safetensors.h"
#include "dtune/base/suggest.h"
#include "dtune/config/recipe_file.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct EvalOptions {
  std::string model;
  std::string split = "test";
  std::string data;
  std::optional<uint64_t> threads;
};

const std::vector<std::string> kSplits = {"test", "validation", "train"};

// The recipe beside the model, which may have been changed, else the one that
// the model itself holds.
RecipeFile recipe_of(const fs::path& model, const std::string& data) {
  std::vector<Override> overrides;
  if (!data.empty()) {
    overrides.push_back({"data.path", fs::absolute(data).string()});
  }
  const fs::path recipe = fs::path(model).replace_extension(".yaml");
  if (fs::exists(recipe)) return RecipeFile::load(recipe, overrides);
  return RecipeFile::parse_stored(SafetensorsFile(model).text("recipe"),
                                  model.string() + ": recipe",
                                  fs::absolute(model).parent_path(), overrides);
}

// Images that were added or taken away move others to another split, from those
// that the model was trained on, too.
void warn_of_other_data(const Console& console, const EvalOptions& options,
                        const EvalRequest& request) {
  if (!options.data.empty()) return;
  const fs::path seen = fs::path(request.model).replace_filename(kSeenData);
  const Split split = options.split == "train"        ? Split::train
                      : options.split == "validation" ? Split::validation
                                                      : Split::test;
  const std::string change =
      compare_seen_data(seen, PreparedData(request.prepared_data), split);
  if (change.empty()) return;
  console.warning(fmt::format(
      "{}: the data have changed since the study of this model began: {} (some "
      "of them may be images that it was trained on; --data names others)",
      source_path(request.recipe.data).string(), change));
}

int eval(const Console& console, const EvalOptions& options) {
  if (std::find(kSplits.begin(), kSplits.end(), options.split) ==
      kSplits.end()) {
    throw Error(
        ErrorKind::config,
        fmt::format("--split: '{}' is not one of test, validation, "
                    "train{}",
                    options.split, did_you_mean(options.split, kSplits)));
  }
  EvalRequest request;
  request.model = find_model(options.model);
  request.recipe = recipe_of(request.model, options.data).recipe();
  request.prepared_data = prepare_recipe_data(console, request.recipe);
  request.split = options.split;
  request.threads = static_cast<int>(options.threads.value_or(1));
  warn_of_other_data(console, options, request);
  const auto metrics = load_engine_for(request.recipe).evaluate(request);
  if (console.json) {
    nlohmann::ordered_json document = {{"model", request.model.string()},
                                       {"split", options.split}};
    for (const auto& [name, value] : metrics) document[name] = value;
    console.line(json_text(document, 2));
  } else {
    for (const auto& [name, value] : metrics) {
      console.line(fmt::format("{:<16} {}", name, value));
    }
  }
  return kExitOk;
}

}  // namespace

Action declare_eval(Arguments& arguments) {
  auto options = std::make_shared<EvalOptions>();
  arguments.describe(
      "Evaluates a model that 'dtune run' wrote. On the same data, with the "
      "same number of threads, the metrics are those of the run, exactly.");
  arguments.positional("MODEL", options->model,
                       "model.safetensors, or a study.", Complete::model, true);
  arguments.option("--split", options->split, "SPLIT",
                   "test (default), validation or train.", Complete::words,
                   kSplits);
  arguments.option("--data", options->data, "PATH",
                   "Other data of the same kind and shape.", Complete::file);
  arguments.option("--threads", options->threads, "N", "Default: 1.",
                   kManyThreads);
  arguments.json();
  arguments.example("dtune eval recipe.files/model.safetensors",
                    "its test accuracy, again");
  return [options](const Console& console) { return eval(console, *options); };
}

}  // namespace dtune
