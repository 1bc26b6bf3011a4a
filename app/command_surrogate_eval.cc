// dtune surrogate eval: how well the parts of the surrogate predict.

#include <algorithm>

#include "app/command_surrogate.h"
#include "app/overrides.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/simulate/cube_world.h"
#include "dtune/surrogate/judge.h"
#include "dtune/surrogate/recorded_cubes.h"
#include "dtune/tuner/learnt_part.h"

namespace dtune {
namespace {

constexpr uint64_t kDefaultStudies = 102;

[[noreturn]] void fail_eval(const std::string& text) {
  throw Error(ErrorKind::data, "dtune surrogate eval: " + text);
}

std::vector<RecordedCurves> judged_curves(const SurrogateOptions& options) {
  const std::vector<std::string> only = split_list(options.leave_out);
  std::vector<RecordedCurves> judged = read_all_curves(options);
  std::erase_if(judged, [&](const RecordedCurves& curves) {
    return !only.empty() && !contains(only, curves.task);
  });
  if (judged.empty()) fail_eval("the files hold no curves");
  return judged;
}

// By which the shipped weights are chosen, as for a study of these curves.
Recipe common_recipe(const SurrogateOptions& options,
                     const std::vector<RecordedCurves>& judged) {
  Recipe first = cube_recipe(judged.front());
  const bool none_shipped = !options.prior.empty() && !options.network.empty();
  for (const RecordedCurves& curves : judged) {
    if (none_shipped || shares_shipped_weights(cube_recipe(curves), first)) {
      continue;
    }
    fail_eval(fmt::format(
        "'{}' and '{}' are tuned with different shipped weights, one with "
        "those of CNNs (judge them apart, or give --prior and --network)",
        judged.front().task, curves.task));
  }
  return first;
}

void refuse_seen_tasks(const SurrogateOptions& options,
                       const std::vector<RecordedCurves>& judged) {
  if (!options.network.empty() || options.allow_seen) return;
  for (const RecordedCurves& curves : judged) {
    if (!shipped_network_has_seen(cube_recipe(curves), curves.task)) continue;
    fail_eval(fmt::format(
        "the shipped network was trained on task '{}' (give --network FILE of "
        "`surrogate train --leave-out`, or say --allow-seen)",
        curves.task));
  }
}

std::vector<RecordedCube> judged_cubes(
    const std::vector<RecordedCurves>& judged, const CubeAxes& axes) {
  std::vector<RecordedCube> cubes;
  cubes.reserve(judged.size());
  for (const RecordedCurves& curves : judged) {
    cubes.push_back(recorded_cube(curves, axes));
  }
  return cubes;
}

void warn_of_own(const Console& console, const SurrogateOptions& options,
                 const LearntPrior& prior,
                 const std::vector<RecordedCube>& cubes) {
  if (options.leave_out_own) return;
  const bool own =
      std::any_of(cubes.begin(), cubes.end(), [&](const RecordedCube& cube) {
        return contains(prior.tasks(), cube.task);
      });
  if (own) {
    console.warning(
        "the prior was learnt from tasks that it is judged on (use "
        "--leave-out-own)");
  }
}

std::string table_of(const std::vector<JudgeRow>& rows) {
  std::string text = fmt::format(
      "{:<28}{:>6}{:>9}{:>11}{:>9}{:>11}{:>9}{:>8}{:>8}\n", "", "seen",
      "studies", "log-score", "all", "RMSE", "all", "in 90%", "all");
  for (const JudgeRow& row : rows) {
    if (row.studies == 0) continue;
    text += fmt::format(
        "{:<28}{:>6}{:>9}{:>11.3f}{:>9.3f}{:>11.4f}{:>9.4f}{:>8.3f}{:>8.3f}\n",
        row.predictor, row.observations, row.studies, row.log_score_final,
        row.log_score_all, row.rmse_final, row.rmse_all, row.coverage_final,
        row.coverage_all);
  }
  return text +
         "log-score (nats), RMSE and share inside the 90% band: of values at "
         "the end of\ntraining, then of all that were not observed.\n";
}

std::string json_of(const std::vector<JudgeRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const JudgeRow& row : rows) {
    list.push_back({{"predictor", row.predictor},
                    {"observations", row.observations},
                    {"studies", row.studies},
                    {"log_score_final", row.log_score_final},
                    {"log_score_all", row.log_score_all},
                    {"rmse_final", row.rmse_final},
                    {"rmse_all", row.rmse_all},
                    {"coverage_final", row.coverage_final},
                    {"coverage_all", row.coverage_all}});
  }
  nlohmann::ordered_json document;
  document["rows"] = std::move(list);
  return json_text(document, 2) + "\n";
}

}  // namespace

int eval_surrogate(const Console& console, const SurrogateOptions& options) {
  const std::vector<RecordedCurves> judged_on = judged_curves(options);
  const Recipe recipe = common_recipe(options, judged_on);
  refuse_seen_tasks(options, judged_on);
  const LearntPrior prior = options.prior.empty()
                                ? shipped_prior_for(recipe)
                                : LearntPrior::load(options.prior);
  const ConvLstm network = options.network.empty()
                               ? shipped_network_for(recipe)
                               : ConvLstm::load(options.network);
  const std::vector<RecordedCube> cubes = judged_cubes(judged_on, prior.axes());
  warn_of_own(console, options, prior, cubes);
  JudgeOptions judged;
  judged.studies = options.studies.value_or(kDefaultStudies);
  judged.threads = thread_count(options);
  judged.seed = options.seed.value_or(1);
  judged.leave_out_own = options.leave_out_own;
  const std::vector<JudgeRow> rows = judge(prior, network, cubes, judged);
  console.print(console.json ? json_of(rows) : table_of(rows));
  return kExitOk;
}

}  // namespace dtune
