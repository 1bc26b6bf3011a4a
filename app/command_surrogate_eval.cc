// dtune surrogate eval: how well the parts of the surrogate predict.

#include <algorithm>

#include "app/command_surrogate.h"
#include "app/overrides.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/surrogate/judge.h"
#include "dtune/surrogate/recorded_cubes.h"
#include "dtune/surrogate/shipped.h"

namespace dtune {
namespace {

constexpr uint64_t kDefaultStudies = 102;

std::vector<RecordedCube> judged_cubes(const SurrogateOptions& options,
                                       const CubeAxes& axes) {
  const std::vector<std::string> only = split_list(options.leave_out);
  std::vector<RecordedCube> cubes;
  for (const RecordedCurves& curves : read_all_curves(options)) {
    if (!only.empty() && !contains(only, curves.task)) continue;
    cubes.push_back(recorded_cube(curves, axes));
  }
  if (cubes.empty()) {
    throw Error(ErrorKind::data,
                "dtune surrogate eval: the files hold no curves");
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
  const LearntPrior prior = options.prior.empty()
                                ? shipped_prior()
                                : LearntPrior::load(options.prior);
  const ConvLstm network = options.network.empty()
                               ? shipped_network()
                               : ConvLstm::load(options.network);
  const std::vector<RecordedCube> cubes = judged_cubes(options, prior.axes());
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
