#include "dtune/review/findings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/order_statistic.h"
#include "dtune/report/text.h"
#include "dtune/review/rank_history.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr double kEdge = 0.02;  // of the range
constexpr size_t kNoiseCurves = 10;
constexpr size_t kFewestDifferences = 6;
constexpr size_t kCompared = 3;  // the best trials
constexpr size_t kFewestFull = 3;
constexpr size_t kManyTrials = 8;
constexpr double kVeryEnd = 0.9;  // of the reports

// Search trials with a result, the best first.
std::vector<const Trial*> ranked_trials(const Study& study) {
  std::vector<std::pair<double, const Trial*>> order;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || !has_results(study, trial)) continue;
    const auto value = best_value(study.recipe.objective, trial);
    if (value) order.emplace_back(-*value, &trial);
  }
  std::stable_sort(
      order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Trial*> ranked;
  ranked.reserve(order.size());
  for (const auto& [value, trial] : order) ranked.push_back(trial);
  return ranked;
}

// A range that ends at 0 cannot always be made wider: no dropout is below it.
bool may_be_wider(const Parameter& parameter, bool at_low) {
  if (parameter.kind != ParameterKind::real &&
      parameter.kind != ParameterKind::integer) {
    return false;
  }
  return !at_low || parameter.low != 0;
}

void find_edges(const Study& study, const StudyFacts& facts,
                std::vector<StudyProblem>& findings) {
  const Trial* best = chosen_trial(study, facts);
  if (best == nullptr) return;
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    const auto value = best->point.find(parameter.name);
    if (value == best->point.end() || parameter.low >= parameter.high ||
        !reason_invalid(parameter, value->second).empty()) {
      continue;
    }
    const double unit = encode_value(parameter, value->second);
    const bool low = unit < kEdge;
    if ((!low && unit <= 1 - kEdge) || !may_be_wider(parameter, low)) continue;
    findings.push_back(
        {fmt::format("{} of the best trial, {}, is at the {} end of its range "
                     "({:g} to {:g}): a better value may lie beyond it.",
                     printable(parameter.name),
                     format_parameter(best->point, parameter.name),
                     low ? "lower" : "upper", parameter.low, parameter.high),
         fmt::format("Give space.{} a wider range in the recipe.",
                     printable(parameter.name))});
  }
}

void find_noise(const Study& study, std::vector<StudyProblem>& findings) {
  const std::vector<const Trial*> ranked = ranked_trials(study);
  const auto noise = step_noise(study);
  if (!noise || ranked.size() < kCompared) return;
  const ObjectiveSpec& objective = study.recipe.objective;
  const double gap = *best_value(objective, *ranked.front()) -
                     *best_value(objective, *ranked[kCompared - 1]);
  if (gap >= *noise) return;
  findings.push_back(
      {fmt::format("The {} best trials differ by {:.2g}, less than the noise "
                   "between two steps ({:.2g}): their order may be chance.",
                   kCompared, gap, *noise),
       "Train each again with other seeds before choosing between them."});
}

void find_few_full(const Study& study, std::vector<StudyProblem>& findings) {
  if (study.horizon <= 1 || study.horizon >= kOpenHorizon) return;
  size_t all = 0, full = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    ++all;
    if (trial.steps() >= study.horizon) ++full;
  }
  if (all < kManyTrials || full >= kFewestFull) return;
  findings.push_back(
      {fmt::format("{} of {} trials {} trained to the last step, {}: what the "
                   "others would have reached is a forecast.",
                   full, all, full == 1 ? "was" : "were", study.horizon),
       "Grant more budget."});
}

std::string remedy_of(Reason reason, const Trial& first, const Study& study,
                      const StudyFacts& facts) {
  const bool network = !study.recipe.command;
  if (network && reason == Reason::diverged) {
    return "Lower the upper end of the learning rate, or set train.clip_norm.";
  }
  if (reason == Reason::out_of_memory) {
    return network ? "Lower train.batch_size or the number of slots."
                   : "Lower the number of slots.";
  }
  return fmt::format("See: dtune show {} {}", shell_quoted(facts.database),
                     first.id);
}

std::string as_sentence(std::string text) {
  if (!text.ends_with('.')) text += '.';
  return text;
}

void find_failures(const Study& study, const StudyFacts& facts,
                   std::vector<StudyProblem>& findings) {
  std::vector<std::pair<Reason, std::vector<const Trial*>>> causes;
  for (const Trial* trial : failed_trials(study)) {
    const auto known = std::find_if(
        causes.begin(), causes.end(),
        [&](const auto& cause) { return cause.first == trial->reason; });
    if (known == causes.end()) {
      causes.push_back({trial->reason, {trial}});
    } else {
      known->second.push_back(trial);
    }
  }
  for (const auto& [reason, trials] : causes) {
    const Trial& first = *trials.front();
    std::string words = to_string(reason);
    std::replace(words.begin(), words.end(), '_', ' ');
    findings.push_back(
        {fmt::format("{} trial{} failed ({}){}", trials.size(),
                     trials.size() == 1 ? "" : "s", words,
                     first.detail.empty()
                         ? "."
                         : fmt::format(", first trial {}: {}", first.id,
                                       as_sentence(printable(first.detail)))),
         remedy_of(reason, first, study, facts)});
  }
}

void find_slow_rank(const std::vector<RankRound>& ranks,
                    std::vector<StudyProblem>& findings) {
  const auto slow = slowest_rank(rank_histories(ranks));
  if (!slow) return;
  findings.push_back(
      {fmt::format("Rank {} of trial {}{} was at {:.0f}% of the speed of the "
                   "others.",
                   slow->rank, slow->trial,
                   slow->node.empty() ? "" : ", on " + printable(slow->node),
                   100 * slow->part),
       "Look what else runs there: dtune doctor"});
}

// Reports of the search, and the first among them that made the best.
void find_late_best(const Study& study, const StudyFacts& facts,
                    std::vector<StudyProblem>& findings) {
  const Trial* best = chosen_trial(study, facts);
  if (best == nullptr || study.state != StudyState::finished) return;
  const int64_t found = best_report(study.recipe.objective, *best)->sequence;
  int64_t last = 0;
  size_t trials = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    ++trials;
    for (const StepReport& report : trial.curve) {
      last = std::max(last, report.sequence);
    }
  }
  if (trials < kManyTrials || double(found) <= kVeryEnd * double(last)) return;
  findings.push_back(
      {"The best was found in the last tenth of the search, so it may not have "
       "converged.",
       fmt::format("Go on: dtune resume {} --trials +{}",
                   shell_quoted(facts.database), (trials + 1) / 2)});
}

}  // namespace

std::optional<double> step_noise(const Study& study) {
  std::vector<double> differences;
  const std::vector<const Trial*> ranked = ranked_trials(study);
  for (size_t i = 0; i < std::min(kNoiseCurves, ranked.size()); ++i) {
    std::vector<double> values;
    for (const StepReport& report : ranked[i]->curve) {
      const auto value = objective_value(study.recipe.objective, report);
      if (value) values.push_back(*value);
    }
    for (size_t k = std::max<size_t>(1, values.size() / 2);
         k + 1 < values.size(); ++k) {
      differences.push_back(
          std::abs(values[k - 1] - 2 * values[k] + values[k + 1]));
    }
  }
  if (differences.size() < kFewestDifferences) return std::nullopt;
  return upper_median(std::move(differences)) / (0.6745 * std::sqrt(6.0));
}

std::vector<StudyProblem> find_problems(const Study& study,
                                        const StudyFacts& facts,
                                        const std::vector<RankRound>& ranks) {
  std::vector<StudyProblem> findings;
  find_edges(study, facts, findings);
  find_noise(study, findings);
  find_few_full(study, findings);
  find_failures(study, facts, findings);
  find_slow_rank(ranks, findings);
  find_late_best(study, facts, findings);
  return findings;
}

}  // namespace dtune
