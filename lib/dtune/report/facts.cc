#include "dtune/report/facts.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "dtune/report/text.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

void count_reason(StateCount& count, Reason reason) {
  const auto found =
      std::find_if(count.reasons.begin(), count.reasons.end(),
                   [reason](const auto& r) { return r.first == reason; });
  if (found == count.reasons.end()) {
    count.reasons.emplace_back(reason, 1);
  } else {
    ++found->second;
  }
}

// Reasons that say more than the state does.
bool tells(TrialState state) {
  return state == TrialState::cut || is_failure(state);
}

std::string describe_reasons(const StateCount& count) {
  if (!tells(count.state)) return "";
  std::string text;
  for (const auto& [reason, trials] : count.reasons) {
    text += text.empty() ? " (" : ", ";
    if (count.reasons.size() > 1) text += fmt::format("{} ", trials);
    text += to_string(reason);
  }
  return text.empty() ? text : text + ")";
}

}  // namespace

StudyFacts facts_of(const StudyRow& row, const std::string& database) {
  StudyFacts facts;
  facts.database = database;
  facts.recipe_path = row.recipe_path;
  facts.budget_trials = row.budget_trials;
  facts.budget_seconds = row.budget_seconds;
  facts.budget_steps = row.budget_steps;
  facts.result = decode_final_result(row.final_json);
  return facts;
}

std::vector<StateCount> count_states(const Study& study) {
  std::vector<StateCount> counts;
  for (const TrialState state :
       {TrialState::waiting, TrialState::running, TrialState::paused,
        TrialState::complete, TrialState::cut, TrialState::failed,
        TrialState::lost, TrialState::timed_out, TrialState::invalid}) {
    counts.push_back({state, 0, {}});
  }
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    StateCount& count = counts.at(static_cast<size_t>(trial.state));
    ++count.trials;
    count_reason(count, trial.reason);
  }
  for (StateCount& count : counts) {
    std::stable_sort(
        count.reasons.begin(), count.reasons.end(),
        [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  return counts;
}

std::string why_ended(const Study& study, const StudyFacts& facts) {
  const bool over =
      study.state == StudyState::finished || study.state == StudyState::failed;
  return over && facts.result ? facts.result->why : "";
}

double metric_of(const ObjectiveSpec& objective, double objective_value) {
  return objective.goal == Goal::maximize ? objective_value : -objective_value;
}

const Trial* chosen_trial(const Study& study, const StudyFacts& facts) {
  const bool decided = study.state == StudyState::finished && facts.result;
  const TrialId id = decided ? facts.result->best : 0;
  const bool known = id > 0 && static_cast<size_t>(id) <= study.trials.size();
  return known ? &study.trial(id) : incumbent(study);
}

std::string why_no_best(const Study& study) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const bool any = std::any_of(
      study.trials.begin(), study.trials.end(), [&](const Trial& trial) {
        return best_report(objective, trial) != nullptr;
      });
  return any ? fmt::format("every trial that reported {} has failed",
                           objective.metric)
             : why_no_report(study);
}

const FinalResult* shipped_model(const Study& study, const StudyFacts& facts) {
  const Trial* chosen = chosen_trial(study, facts);
  const bool shipped = chosen != nullptr && facts.result &&
                       facts.result->best == chosen->id &&
                       facts.result->final_trial > 0;
  return shipped ? &*facts.result : nullptr;
}

std::map<std::string, double> result_metrics(const Study& study,
                                             const StudyFacts& facts) {
  std::map<std::string, double> metrics;
  if (const FinalResult* model = shipped_model(study, facts)) {
    metrics = model->metrics;
  }
  const Trial* chosen = chosen_trial(study, facts);
  const StepReport* report = chosen == nullptr
                                 ? nullptr
                                 : best_report(study.recipe.objective, *chosen);
  if (report == nullptr) return metrics;
  const bool trained = !metrics.empty();
  for (const auto& [name, value] : report->metrics) {
    if (!trained || name.starts_with("val_")) metrics.emplace(name, value);
  }
  return metrics;
}

std::string describe_point(const Study& study, const Point& point) {
  Point rest = point;
  std::string text;
  const auto add = [&](const std::string& words) {
    if (!text.empty() && !words.empty()) text += ' ';
    text += printable(words);
  };
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    const auto found = rest.find(parameter.name);
    if (found == rest.end()) continue;  // inactive
    add(describe({*found}));
    rest.erase(found);
  }
  add(describe(rest));
  return text.empty() ? "no parameters" : text;
}

std::string describe_states(const Study& study) {
  int total = 0;
  std::string text;
  for (const StateCount& count : count_states(study)) {
    total += count.trials;
    if (count.trials == 0) continue;
    std::string state = to_string(count.state);
    std::replace(state.begin(), state.end(), '_', ' ');
    text += fmt::format("{}{} {}{}", text.empty() ? ": " : ", ", count.trials,
                        state, describe_reasons(count));
  }
  return fmt::format("{} trial{}{}", total, total == 1 ? "" : "s", text);
}

namespace {

// "(cd 'my work' && DTUNE_PARAM_LR=0.1 python train.py --lr 0.1)".
std::string program_line(const Recipe& recipe, const Point& point) {
  std::map<std::string, std::string> environment = point_environment(point);
  environment.merge(std::map(recipe.command->environment));
  std::string line = "(";
  if (!recipe.command->directory.empty()) {
    line += "cd " + shell_quoted(recipe.command->directory) + " &&";
  }
  for (const auto& [name, value] : environment) {
    line += fmt::format(" {}={}", name, shell_quoted(value));
  }
  for (const std::string& word : command_words(recipe, point)) {
    line += " " + shell_quoted(word);
  }
  return line + ")";
}

}  // namespace

std::string again_command(const Study& study, const StudyFacts& facts) {
  const Trial* best = chosen_trial(study, facts);
  if (best == nullptr) return "";
  if (study.recipe.command) return program_line(study.recipe, best->point);
  const auto name = std::filesystem::path(facts.database).stem().string();
  const std::string recipe = shell_quoted(name + "-best.yaml");
  return fmt::format("dtune best {} --recipe > {} && dtune run {}",
                     shell_quoted(facts.database), recipe, recipe);
}

namespace {

// What a study that ended without a result needs to go on: more of the budget
// that is spent.
std::string more_budget(const Study& study, const StudyFacts& facts) {
  const double spent = study.searched_seconds;
  if (facts.budget_seconds > 0 && spent >= facts.budget_seconds) {
    const double more = std::max(60.0, facts.budget_seconds);
    return fmt::format(" --time +{:.0f}s", more);
  }
  return "";
}

}  // namespace

std::string next_command(const Study& study, const StudyFacts& facts) {
  const std::string database = shell_quoted(facts.database);
  if (study.state == StudyState::interrupted) return "dtune resume " + database;
  if (study.state == StudyState::running) return "dtune status " + database;
  if (study.state == StudyState::failed) {
    return failed_trials(study).empty()
               ? "dtune resume " + database + more_budget(study, facts)
               : "dtune status " + database;
  }
  const FinalResult* model = shipped_model(study, facts);
  if (model != nullptr && !model->model.empty()) {
    return "dtune eval " + shell_quoted(model->model);
  }
  return "dtune best " + database;
}

}  // namespace dtune
