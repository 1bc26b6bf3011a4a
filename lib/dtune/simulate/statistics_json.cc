#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/simulate/statistics_report.h"

namespace dtune {
namespace {

using Json = nlohmann::ordered_json;

// One number of each budget, under its steps.
Json by_budget(const ContenderStatistics& row, double BudgetStatistics::*what) {
  Json json = Json::object();
  for (const BudgetStatistics& at : row.budgets) {
    json[std::to_string(at.budget)] = at.*what;
  }
  return json;
}

Json share(int64_t part, int64_t whole) {
  return whole > 0 ? Json(double(part) / double(whole)) : Json(nullptr);
}

Json row_json(const ContenderStatistics& row, const BenchmarkFacts& facts) {
  Json json = {
      {"sampler", row.contender.sampler},
      {"scheduler", row.contender.scheduler},
      {"regret", by_budget(row, &BudgetStatistics::mean)},
      {"rank", by_budget(row, &BudgetStatistics::rank)},
      {"seeds", facts.seeds},
      {"median", by_budget(row, &BudgetStatistics::median)},
      {"low", by_budget(row, &BudgetStatistics::low)},
      {"high", by_budget(row, &BudgetStatistics::high)},
      {"difference", by_budget(row, &BudgetStatistics::difference)},
      {"difference_low", by_budget(row, &BudgetStatistics::difference_low)},
      {"difference_high", by_budget(row, &BudgetStatistics::difference_high)},
      {"runs", row.runs},
      {"trials", row.trials},
      {"cuts", row.cuts},
      {"cuts_wrong", row.cuts_wrong}};
  json["cuts_wrong_share"] = share(row.cuts_wrong, row.cuts);
  json["predictions"] = row.coverage.predictions;
  json["in_band_share"] = share(row.coverage.inside, row.coverage.predictions);
  json["seconds"] = row.seconds;
  return json;
}

}  // namespace

std::string statistics_json(const std::vector<ContenderStatistics>& rows,
                            const BenchmarkFacts& facts) {
  Json json = {{"rows", Json::array()}};
  for (const ContenderStatistics& row : rows) {
    json["rows"].push_back(row_json(row, facts));
  }
  json["curves"] = facts.curves;
  json["tasks"] = facts.tasks;
  json["seeds"] = facts.seeds;
  json["slots"] = facts.slots;
  json["noise"] = facts.noise;
  json["spread"] = facts.spread;
  json["misleading"] = facts.misleading;
  json["seed"] = facts.seed;
  return json_text(json, 2) + "\n";
}

}  // namespace dtune
