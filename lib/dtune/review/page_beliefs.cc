// What the tuner and the ranks did over time, for the page.
#include <map>
#include <set>
#include <string>

#include "dtune/review/page_parts.h"
#include "dtune/review/rank_history.h"

namespace dtune {
namespace {

std::set<std::string> predictor_names(const StudyRecords& records) {
  std::set<std::string> names;
  for (const Decision& decision : records.decisions) {
    for (const auto& [name, weight] : decision.belief.weights) {
      names.insert(name);
    }
  }
  return names;
}

// A point for each decision before which a weight has changed.
void write_trust(const StudyRecords& records, PageJson& json) {
  const std::set<std::string> names = predictor_names(records);
  json.key("trust");
  json.begin_object();
  json.key("names");
  json.begin_array();
  for (const std::string& name : names) json.text(name);
  json.end_array();
  json.key("points");
  json.begin_array();
  const std::map<std::string, double>* before = nullptr;
  for (const Decision& decision : records.decisions) {
    const auto& weights = decision.belief.weights;
    if (weights.empty() || (before != nullptr && *before == weights)) continue;
    before = &weights;
    json.begin_array();
    json.integer(decision.number);
    json.number(decision.searched_seconds);
    for (const std::string& name : names) {
      const auto found = weights.find(name);
      json.number(found == weights.end() ? 0 : found->second);
    }
    json.end_array();
  }
  json.end_array();
  json.end_object();
}

// Forecasts whose step was trained later, beside what was then seen.
void write_seen(const ReportedStudy& reported, PageJson& json) {
  const Study& study = *reported.study;
  const ObjectiveSpec& objective = study.recipe.objective;
  json.key("forecasts");
  json.begin_array();
  for (const Decision& decision : reported.records->decisions) {
    const auto& forecast = decision.belief.forecast;
    const bool known = forecast && forecast->step > decision.step &&
                       decision.trial >= 1 &&
                       decision.trial <= int64_t(study.trials.size());
    if (!known) continue;
    const auto seen =
        value_at(objective, study.trial(decision.trial), forecast->step);
    if (!seen) continue;
    json.begin_array();
    json.integer(decision.trial);
    json.integer(forecast->step);
    json.integer(forecast->step - decision.step);
    for (const double value : {forecast->mean, forecast->low, forecast->high,
                               metric_of(objective, *seen)}) {
      json.number(value);
    }
    json.end_array();
  }
  json.end_array();
}

template <class Write>
void write_cells(const char* name, const RankHistory& history, PageJson& json,
                 Write write) {
  json.key(name);
  json.begin_array();
  for (const auto& cells : history.cells) {
    json.begin_array();
    for (const RankCell& cell : cells) {
      if (cell.present) {
        write(cell);
      } else {
        json.null();
      }
    }
    json.end_array();
  }
  json.end_array();
}

void write_ranks(const StudyRecords& records, PageJson& json) {
  json.key("ranks");
  json.begin_array();
  for (const RankHistory& history : rank_histories(records.ranks)) {
    json.begin_object();
    json.integer("trial", history.trial);
    json.integer("attempt", history.attempt);
    json.key("rounds");
    json.begin_array();
    for (const int64_t round : history.rounds) json.integer(round);
    json.end_array();
    json.key("nodes");
    json.begin_array();
    for (const std::string& node : history.nodes) json.text(node);
    json.end_array();
    const auto cells = [&](const char* name, auto value) {
      write_cells(name, history, json,
                  [&](const RankCell& cell) { json.number(value(cell)); });
    };
    cells("speed", [](const RankCell& cell) { return cell.speed; });
    cells("share", [](const RankCell& cell) { return cell.share; });
    cells("wait", [](const RankCell& cell) { return cell.wait; });
    cells("late", [](const RankCell& cell) { return double(cell.late); });
    json.end_object();
  }
  json.end_array();
}

}  // namespace

void write_beliefs(const ReportedStudy& reported, PageJson& json) {
  write_trust(*reported.records, json);
  write_seen(reported, json);
  write_ranks(*reported.records, json);
}

}  // namespace dtune
