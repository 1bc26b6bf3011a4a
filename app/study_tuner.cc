#include "app/study_tuner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "app/study_loader.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/space/point_table.h"
#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {
namespace {

constexpr const char* kTable = ".csv";
constexpr uint64_t kMostOfTable = uint64_t{64} << 20;

// What is wrong with it is the recipe's mistake, not the study's failure.
LoadedStudy load_named_study(const std::string& path) {
  try {
    return load_study(path, StoreMode::read_only);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::store && error.kind() != ErrorKind::data) {
      throw;
    }
    throw Error(ErrorKind::data, fmt::format("warm_start: {}", error.what()));
  }
}

WarmStudy load_warm_study(const std::string& path, const Recipe& recipe) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw Error(ErrorKind::data,
                fmt::format("warm_start: {}: there is no such file "
                            "(correct the path, or leave it out: every "
                            "decision depends on what it holds)",
                            path));
  }
  if (path.ends_with(kTable)) {
    return read_warm_table(read_file(path, kMostOfTable), short_path(path),
                           recipe);
  }
  LoadedStudy loaded = load_named_study(path);
  return {.name = short_path(path),
          .recipe = std::move(loaded.study.recipe),
          .horizon = loaded.study.horizon,
          .trials = std::move(loaded.study.trials)};
}

// Of the first row of a table that is no point of this space: its line and why;
// "" where there is none.
std::string why_no_row(const Recipe& recipe, const std::string& path) {
  const std::string name = short_path(path);
  for (const PointRow& row :
       read_point_table(read_file(path, kMostOfTable), name, recipe.space)) {
    if (row.problem.empty()) continue;
    return fmt::format("; {}:{}:1: {}", name, row.line, row.problem);
  }
  return "";
}

// The same of the first trial of a study of old.
std::string why_no_point(const Recipe& recipe, const std::string& path,
                         const WarmStudy& old) {
  if (path.ends_with(kTable)) return why_no_row(recipe, path);
  for (const Trial& trial : old.trials) {
    Point known = trial.point;
    std::erase_if(
        known, [&](const auto& one) { return !recipe.space.find(one.first); });
    const std::string why = recipe.space.reason_invalid(known);
    if (!why.empty()) return fmt::format("; trial {}: {}", trial.id, why);
  }
  return "";
}

// Weights of `surrogate:`; every decision depends on them.
template <typename Weights>
std::shared_ptr<const Weights> load_weights(const std::string& path,
                                            const char* key) {
  if (path.empty()) return nullptr;
  try {
    return std::make_shared<const Weights>(Weights::load(path));
  } catch (const Error& error) {
    throw Error(ErrorKind::data, fmt::format("{}: {}", key, error.what()));
  }
}

// "sampler.kind: unknown sampler ...": a message that begins with its key
// becomes a problem of the recipe there.
template <typename Make>
auto at_its_place(const RecipeFile& file, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* key :
         {"sampler.", "scheduler.", "surrogate.", "warm_start:"}) {
      if (!text.starts_with(key)) continue;
      throw file.problem(text.substr(0, text.find(':')), text);
    }
    throw;
  }
}

}  // namespace

TunerOptions tuner_options(const Recipe& recipe) {
  TunerOptions options;
  options.prior =
      load_weights<LearntPrior>(recipe.surrogate.prior, "surrogate.prior");
  options.network =
      load_weights<ConvLstm>(recipe.surrogate.network, "surrogate.network");
  for (const std::string& path : recipe.warm_start) {
    WarmStudy old = load_warm_study(path, recipe);
    check_warm_study(recipe, old);
    if (warm_observations(recipe, old, 1).empty()) {
      throw Error(
          ErrorKind::config,
          fmt::format("warm_start: {}: none of its {} trials has a result at a "
                      "point of this study's space{} (give both the same "
                      "parameters, or leave it out)",
                      old.name, old.trials.size(),
                      why_no_point(recipe, path, old)));
    }
    options.warm.push_back(std::move(old));
  }
  return options;
}

std::string describe_warm_study(const Recipe& recipe, const std::string& path,
                                const WarmStudy& old) {
  const auto all =
      std::ranges::count(old.trials, TrialKind::search, &Trial::kind);
  std::set<TrialId> counted;
  for (const WarmObservation& one :
       warm_observations(recipe, old, std::numeric_limits<size_t>::max())) {
    counted.insert(one.trial);
  }
  const auto count = std::ssize(counted);
  const char* plural = all == 1 ? "" : "s";
  if (count == all) return fmt::format("{}: {} trial{}", old.name, all, plural);
  return fmt::format(
      "{}: {} of {} trial{} (the others have no result at a point of this "
      "study's space{})",
      old.name, count, all, plural, why_no_point(recipe, path, old));
}

TunerOptions checked_tuner_options(const RecipeFile& file) {
  return at_its_place(file, [&] { return tuner_options(file.recipe()); });
}

Tuner checked_tuner(const RecipeFile& file, int horizon,
                    const TunerOptions& options) {
  return at_its_place(
      file, [&] { return make_tuner(file.recipe(), horizon, options); });
}

ReplayTuner tuner_of(const Recipe& recipe, int horizon) {
  Tuner tuner = make_tuner(recipe, horizon, tuner_options(recipe));
  return {std::move(tuner.sampler), std::move(tuner.scheduler)};
}

}  // namespace dtune
