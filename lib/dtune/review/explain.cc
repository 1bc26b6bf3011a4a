#include "dtune/review/explain.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "dtune/study/belief.h"

namespace dtune {
namespace {

constexpr size_t kBest = 5;
constexpr int kPredictedSteps = 48;

// Sampler and scheduler may be one and say the same.
void append_new(std::vector<std::string>& lines,
                const std::vector<std::string>& more) {
  for (const std::string& line : more) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(line);
    }
  }
}

std::vector<TrialId> best_trials(const Study& study) {
  std::vector<std::pair<double, TrialId>> order;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || !has_results(study, trial)) continue;
    if (const auto value = best_value(study.recipe.objective, trial)) {
      order.emplace_back(-*value, trial.id);
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<TrialId> best;
  for (const auto& [value, trial] : order) {
    if (best.size() < kBest) best.push_back(trial);
  }
  return best;
}

bool is_cut(const Decision& decision) {
  return decision.action == "cut" &&
         decision.maker != DecisionMaker::coordinator;
}

// Steps at which a prediction is asked for: all, or evenly thinned.
std::set<int> steps_to_predict(const Study& study, const Trial& trial) {
  const int last = study.horizon < kOpenHorizon ? study.horizon : trial.steps();
  std::set<int> steps;
  for (int i = 1; i <= std::min(last, kPredictedSteps); ++i) {
    steps.insert(
        static_cast<int>(int64_t{i} * last / std::min(last, kPredictedSteps)));
  }
  return steps;
}

}  // namespace

BestHistory::BestHistory(const Study& study, const StudyRecords& records) {
  std::optional<double> best;
  for (const RecordedReport& recorded : records.reports) {
    const bool known =
        recorded.trial >= 1 &&
        recorded.trial <= static_cast<TrialId>(study.trials.size());
    if (!known || study.trial(recorded.trial).kind != TrialKind::search) {
      continue;
    }
    const ObjectiveSpec& objective = study.recipe.objective;
    const auto value = objective_value(objective, recorded.report);
    if (!value || (best && *value <= *best)) continue;
    if (!meets_requirements(objective, recorded.report)) continue;
    best = value;
    changes_.push_back({recorded.report.sequence,
                        {recorded.trial, metric_of(objective, *value)}});
  }
}

BestSoFar BestHistory::at(int64_t reports) const {
  const auto after = std::upper_bound(changes_.begin(), changes_.end(), reports,
                                      [](int64_t count, const Change& change) {
                                        return count < change.sequence;
                                      });
  return after == changes_.begin() ? BestSoFar{} : std::prev(after)->best;
}

std::optional<Prediction> predict_step(const Study& study, const Trial& trial,
                                       int step, const ReplayTuner& tuner) {
  return predict_step(*tuner.scheduler, *tuner.sampler, study, trial, step);
}

std::vector<Prediction> predict_curve(const Study& study, const Trial& trial,
                                      const ReplayTuner& tuner) {
  std::vector<Prediction> curve;
  for (const int step : steps_to_predict(study, trial)) {
    const auto prediction = predict_step(study, trial, step, tuner);
    if (prediction) curve.push_back(*prediction);
  }
  return curve;
}

std::vector<std::string> tuner_words(const Study& study,
                                     const ReplayTuner& tuner) {
  std::vector<std::string> lines = tuner.scheduler->explain(study);
  append_new(lines, tuner.sampler->explain(study));
  return lines;
}

std::string trusted(const Study& study, const ReplayTuner& tuner) {
  const std::vector<std::string> lines = tuner_words(study, tuner);
  return lines.empty() ? "" : lines.front();
}

namespace {

// The gain that is worth going on for, where the recipe gives none.
double usual_gain(const Study& study) {
  std::vector<double> values;
  for (const Trial& trial : study.trials) {
    const auto value = best_value(study.recipe.objective, trial);
    if (value && trial.kind == TrialKind::search) values.push_back(*value);
  }
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return 0.01 * (values.back() - values[values.size() / 2]);
}

}  // namespace

std::string plateau_forecast(const Study& study, const ReplayTuner& tuner) {
  if (tuner.scheduler == nullptr) return "";
  const double asked = study.recipe.stop.gain;
  const double gain = asked > 0 ? asked : usual_gain(study);
  if (gain <= 0) return "";
  constexpr double kShare = 0.2;
  const auto chance = tuner.scheduler->chance_of_gain(study, gain, kShare);
  if (!chance) return "";
  return fmt::format(
      "a fifth more trials gain more than {:.2g} with a probability of {:.2g}",
      gain, *chance);
}

StudyExplanation explain_study(const Study& study, const StudyRecords& records,
                               const ReplayTuner& tuner) {
  StudyExplanation explanation;
  explanation.tuner = tuner_words(study, tuner);
  explanation.best = best_trials(study);
  explanation.importance = parameter_importance(study);
  const BestHistory history(study, records);
  for (const Decision& decision : records.decisions) {
    if (is_cut(decision)) {
      explanation.cuts.push_back({decision, history.at(decision.after_report)});
    }
  }
  explanation.paused = std::count_if(study.trials.begin(), study.trials.end(),
                                     [](const Trial& trial) {
                                       return trial.kind == TrialKind::search &&
                                              trial.state == TrialState::paused;
                                     });
  return explanation;
}

TrialExplanation explain_trial(const Study& study, TrialId id,
                               const StudyRecords& records,
                               const ReplayTuner& tuner) {
  TrialExplanation explanation;
  explanation.trial = id;
  const Trial& trial = study.trial(id);
  const BestHistory history(study, records);
  for (const Decision& decision : records.decisions) {
    if (decision.trial != id) continue;
    explanation.decisions.push_back(
        {decision, history.at(decision.after_report)});
  }
  explanation.tuner = tuner.scheduler->explain_trial(study, id);
  append_new(explanation.tuner, tuner.sampler->explain_trial(study, id));
  explanation.predicted = predict_curve(study, trial, tuner);
  return explanation;
}

}  // namespace dtune
