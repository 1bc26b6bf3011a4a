#include "dtune/review/explain.h"

#include <algorithm>
#include <set>

namespace dtune {
namespace {

constexpr size_t kBest = 5;
constexpr int kPredictedSteps = 48;

// Who was the best after how many reports: one entry a change.
class BestHistory {
 public:
  BestHistory(const Study& study, const StudyRecords& records) {
    std::optional<double> best;
    TrialId trial = 0;
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
      best = value;
      trial = recorded.trial;
      changes_.push_back(
          {recorded.report.sequence, {trial, metric_of(objective, *value)}});
    }
  }

  // After so many reports; negative: unknown.
  BestSoFar at(int64_t reports) const {
    BestSoFar best;
    for (const auto& [sequence, change] : changes_) {
      if (sequence > reports) break;
      best = change;
    }
    return best;
  }

 private:
  std::vector<std::pair<int64_t, BestSoFar>> changes_;
};

// Sampler and scheduler may be one and say the same.
void append_new(std::vector<std::string>& lines,
                const std::vector<std::string>& more) {
  for (const std::string& line : more) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(line);
    }
  }
}

std::vector<std::string> words_of(const Study& study,
                                  const ReplayTuner& tuner) {
  std::vector<std::string> lines = tuner.scheduler->explain(study);
  append_new(lines, tuner.sampler->explain(study));
  return lines;
}

std::vector<TrialId> best_trials(const Study& study) {
  std::vector<std::pair<double, TrialId>> order;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
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

std::string trusted(const Study& study, const ReplayTuner& tuner) {
  const std::vector<std::string> lines = words_of(study, tuner);
  return lines.empty() ? "" : lines.front();
}

StudyExplanation explain_study(const Study& study, const StudyRecords& records,
                               const ReplayTuner& tuner) {
  StudyExplanation explanation;
  explanation.tuner = words_of(study, tuner);
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
  for (const int step : steps_to_predict(study, trial)) {
    auto prediction = tuner.scheduler->predict(study, trial, step);
    if (!prediction) prediction = tuner.sampler->predict(study, trial, step);
    if (prediction) explanation.predicted.push_back(*prediction);
  }
  return explanation;
}

}  // namespace dtune
