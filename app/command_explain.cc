// dtune explain: why a study, or one of its trials, went as it did.

#include <memory>

#include "app/command.h"
#include "app/study_loader.h"
#include "app/study_tuner.h"
#include <fmt/format.h>

#include "dtune/review/explain.h"

namespace dtune {
namespace {

struct ExplainOptions {
  std::string study;
  std::string trial;
  bool all = false;
};

constexpr size_t kFewCuts = 15;

int explain(const Console& console, const ExplainOptions& options) {
  LoadedStudy loaded =
      load_study(find_database(options.study), StoreMode::read_only);
  const StudyRecords records = loaded.store->load_records();
  loaded.study.decisions = static_cast<int64_t>(records.decisions.size());
  const Study& study = loaded.study;
  const ReplayTuner tuner = tuner_of(study.recipe, study.horizon);
  if (options.trial.empty()) {
    const StudyExplanation explanation = explain_study(study, records, tuner);
    console.print(console.json ? study_explanation_json(study, explanation)
                               : study_explanation_text(
                                     study, explanation, style_of(console),
                                     options.all ? 0 : kFewCuts));
    return kExitOk;
  }
  const Trial& trial = find_trial(loaded, options.trial);
  const TrialExplanation explanation =
      explain_trial(study, trial.id, records, tuner);
  console.print(console.json ? trial_explanation_json(study, explanation)
                             : trial_explanation_text(study, explanation,
                                                      style_of(console)));
  return kExitOk;
}

}  // namespace

Action declare_explain(Arguments& arguments) {
  auto options = std::make_shared<ExplainOptions>();
  arguments.describe(
      "Explains the course of a study: which predictors the tuner relies on, "
      "which parameters matter, which trials are the best, which were cut and "
      "why. "
      "With a trial's number: why its point was proposed, why it was trained "
      "when it was and why it was left, its curve and, where the tuner can "
      "tell, how it is expected to go on, with a band that holds the metric "
      "with 90%.");
  arguments.study(options->study);
  arguments.positional("TRIAL", options->trial, "A trial's number.",
                       Complete::nothing, false);
  arguments.flag("--all", options->all, "List all trials that were cut.");
  arguments.json();
  arguments.example("dtune explain recipe.db", "what mattered, what was cut");
  arguments.example("dtune explain recipe.db 7", "why trial 7 was cut");
  return
      [options](const Console& console) { return explain(console, *options); };
}

}  // namespace dtune
