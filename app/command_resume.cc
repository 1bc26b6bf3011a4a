// dtune resume: goes on with a study, with more budget if asked.

#include <algorithm>
#include <memory>

#include "app/command.h"
#include "app/overrides.h"
#include "app/study_check.h"
#include "app/study_run.h"
#include <fmt/format.h>

#include "dtune/base/text.h"
#include "dtune/cluster/budget.h"

namespace dtune {
namespace {

struct ResumeOptions {
  std::string study;
  std::string trials;
  std::string time;
  std::vector<std::string> set;
  RunView view;
};

constexpr int64_t kMostTrials = 1'000'000'000;

// "+20" adds to what was granted, "60" is the new total.
struct Grant {
  bool add = false;
  std::string amount;
};

Grant parse_grant(const std::string& text) {
  if (text.starts_with('+')) return {true, text.substr(1)};
  return {false, text};
}

int64_t parse_count(const std::string& text) {
  const auto number = parse_number<int64_t>(text);
  if (!number || *number < 1 || *number > kMostTrials) {
    throw Error(ErrorKind::config,
                fmt::format("--trials: '{}' is not a number of trials (+20: "
                            "twenty more, 60: sixty in total)",
                            text));
  }
  return *number;
}

// Where there was no limit, more counts from what was spent.
void grant_more(const ResumeOptions& options, const Study& study,
                StudyRow& row) {
  if (!options.trials.empty()) {
    const Grant grant = parse_grant(options.trials);
    const int64_t count = parse_count(grant.amount);
    const int64_t started = BudgetMeter({}, study).trials();
    const int64_t before = row.budget_trials > 0 ? row.budget_trials : started;
    if (!grant.add && count < started) {
      throw Error(
          ErrorKind::config,
          fmt::format("--trials: {} in total are fewer than the {} that "
                      "were started (+{}: so many more)",
                      count, started, count));
    }
    row.budget_trials =
        grant.add ? std::min(before + count, kMostTrials) : count;
  }
  if (!options.time.empty()) {
    const Grant grant = parse_grant(options.time);
    const double seconds = to_seconds(parse_duration(grant.amount));
    const double before =
        row.budget_seconds > 0 ? row.budget_seconds : row.searched_seconds;
    row.budget_seconds = grant.add ? before + seconds : seconds;
  }
}

// A study whose time is over gets no trial however many are granted.
void check_grant(const ResumeOptions& options, const LoadedStudy& loaded) {
  const StudyRow& row = loaded.row;
  const bool time_over =
      row.budget_seconds > 0 && row.searched_seconds >= row.budget_seconds;
  if (options.trials.empty() || !time_over) return;
  throw Error(
      ErrorKind::config,
      fmt::format("--trials: the study's time budget of {} is spent, so no "
                  "trial can start (add time as well: --time +10m)",
                  format_duration(from_seconds(row.budget_seconds))));
}

// Keys that do not define the search may change.
void apply_overrides(const std::vector<std::string>& texts,
                     LoadedStudy& loaded) {
  if (texts.empty()) return;
  const std::filesystem::path recipe_path = loaded.row.recipe_path;
  RecipeFile changed = RecipeFile::parse_stored(
      loaded.row.recipe_yaml, loaded.facts.database + ": recipe",
      recipe_path.parent_path(), parse_overrides(texts));
  if (changed.search_hash() != loaded.recipe.search_hash()) {
    throw Error(ErrorKind::config,
                fmt::format("--set {}: changes what is searched, so the trials "
                            "so far would not count (run the changed recipe "
                            "with --fresh or another --db)",
                            texts.front()));
  }
  loaded.row.recipe_yaml = changed.resolved_yaml();
  loaded.study.recipe = changed.recipe();
  loaded.study.recipe_yaml = loaded.row.recipe_yaml;
  loaded.recipe = std::move(changed);
}

int resume(const Console& standard, const ResumeOptions& options) {
  Console console = standard;
  console.quiet = options.view.quiet;
  LoadedStudy loaded =
      load_study(find_database(options.study), StoreMode::open);
  const bool asked =
      !options.trials.empty() || !options.time.empty() || !options.set.empty();
  if (loaded.study.state == StudyState::finished && !asked) {
    console.notice(fmt::format(
        "the study in {} is finished; this is its result (more: {})",
        loaded.facts.database, more_trials_command(loaded)));
    return report_result(console, loaded, options.view);
  }
  apply_overrides(options.set, loaded);
  grant_more(options, loaded.study, loaded.row);
  check_grant(options, loaded);
  apply_granted_budget(loaded.row, loaded.study.recipe);
  check_local_training(loaded.study.recipe);
  if (options.view.listen.empty()) check_startable(loaded.recipe);
  loaded.facts = facts_at(loaded.row, loaded.files.database);
  return run_study(console, loaded, options.view);
}

}  // namespace

Action declare_resume(Arguments& arguments) {
  auto options = std::make_shared<ResumeOptions>();
  arguments.describe(
      "Continues a study that was stopped, killed or is finished, with the "
      "recipe that its database holds. Budgets count what was spent before; "
      "more is granted only on request.");
  arguments.study(options->study);
  arguments.option("--trials", options->trials, "+N",
                   "Grant N more trials (without +: N in total).");
  arguments.option("--time", options->time, "+TIME",
                   "Grant more time, e.g. +10m (without +: in total).");
  arguments.option("--set", options->set, "KEY=VALUE",
                   "Override a key that does not define the search (limits, "
                   "resources, final, expect).");
  declare_view(arguments, options->view);
  arguments.example("dtune resume recipe.db", "go on after Ctrl-C or a crash");
  arguments.example("dtune resume recipe.db --trials +20 --time +10m",
                    "search for longer");
  return [options](const Console& console) {
    return with_junit(options->view, options->study,
                      [&] { return resume(console, *options); });
  };
}

}  // namespace dtune
