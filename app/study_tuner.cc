#include "app/study_tuner.h"

#include <utility>

#include "app/study_loader.h"
#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

WarmStudy load_warm_study(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw Error(ErrorKind::data,
                fmt::format("warm_start: {}: there is no such database "
                            "(correct the path, or leave it out: every "
                            "decision depends on what it holds)",
                            path));
  }
  LoadedStudy loaded = load_study(path, StoreMode::read_only);
  return {.name = short_path(path),
          .recipe = std::move(loaded.study.recipe),
          .horizon = loaded.study.horizon,
          .trials = std::move(loaded.study.trials)};
}

}  // namespace

TunerOptions tuner_options(const Recipe& recipe) {
  TunerOptions options;
  for (const std::string& path : recipe.warm_start) {
    WarmStudy old = load_warm_study(path);
    check_warm_study(recipe, old);
    if (warm_observations(recipe, old, 1).empty()) {
      throw Error(ErrorKind::config,
                  fmt::format("warm_start: {}: none of its {} trials has a "
                              "result at a point of this study's space (give "
                              "both the same parameters, or leave it out)",
                              old.name, old.trials.size()));
    }
    options.warm.push_back(std::move(old));
  }
  return options;
}

ReplayTuner tuner_of(const Recipe& recipe, int horizon) {
  Tuner tuner = make_tuner(recipe, horizon, tuner_options(recipe));
  return {std::move(tuner.sampler), std::move(tuner.scheduler)};
}

}  // namespace dtune
