// dtune status, best, show: what is known of a study, for people and programs.

#include <climits>
#include <memory>
#include <optional>
#include <thread>

#include "app/command.h"
#include "app/screen.h"
#include "app/signals.h"
#include "app/study_loader.h"
#include "app/study_tuner.h"
#include "app/submitted.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/report/json.h"
#include "dtune/report/summary.h"
#include "dtune/review/explain.h"

namespace dtune {
namespace {

struct StatusOptions {
  std::string study;
  bool watch = false;
  bool all = false;
};

struct BestOptions {
  std::string study;
  bool pareto = false;
  bool recipe = false;
};

struct ShowOptions {
  std::string study;
  std::string trial;
};

void wait_for(const std::atomic<int>& stop, Duration patience) {
  const MonoTime until = system_clock().now() + patience;
  while (stop == 0 && system_clock().now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

constexpr int kOtherLines = 14;
constexpr int kFewTrials = 15;

// As many trials as fit under the other lines of status_text.
int trials_that_fit(const Console& console) {
  return console.out_terminal ? std::max(terminal_size().rows - kOtherLines, 3)
                              : kFewTrials;
}

// What the tuner says of a study. Keeps the tuner from one look to the next, so
// that it takes in no more than what is new.
class TunerQuestion {
 public:
  // A status is worth showing without an answer, too.
  void ask(LoadedStudy& loaded) {
    const Study& study = loaded.study;
    try {
      if (!tuner_ || recipe_ != study.recipe_yaml) {
        tuner_ = tuner_of(study.recipe, study.horizon);
        recipe_ = study.recipe_yaml;
      }
      loaded.facts.tuner = trusted(study, *tuner_);
      const std::string forecast = plateau_forecast(study, *tuner_);
      if (study.state != StudyState::finished && !forecast.empty()) {
        loaded.facts.tuner +=
            (loaded.facts.tuner.empty() ? "" : "; ") + forecast;
      }
    } catch (const Error&) {
      loaded.facts.tuner.clear();
    }
  }

 private:
  std::optional<ReplayTuner> tuner_;
  std::string recipe_;
};

// Only a coordinator that works lets nodes rest.
void add_resting(LoadedStudy& loaded) {
  if (loaded.study.state != StudyState::running) return;
  loaded.facts.resting = resting_nodes(
      loaded.study, loaded.store->load_events(0), system_clock().wall_ms());
}

// Draws the status every second until the study ends or the user has seen
// enough; without a terminal, prints it whenever it has changed.
int watch_status(const Console& console, const std::string& name) {
  const std::filesystem::path database = find_database(name);
  const StopSignals signals(true);
  std::optional<Screen> screen;
  if (can_redraw(console)) screen.emplace();
  std::string shown;
  TunerQuestion tuner;
  while (signals.stop() == 0) {
    LoadedStudy loaded = load_study(database, StoreMode::read_only);
    tuner.ask(loaded);
    add_resting(loaded);
    const std::string text =
        status_text(loaded.study, shown_facts(loaded), style_of(console),
                    trials_that_fit(console));
    if (screen) {
      screen->draw(text);
    } else if (text != shown) {
      console.print(text);
      std::fflush(stdout);
    }
    shown = text;
    if (loaded.study.state != StudyState::running) break;
    wait_for(signals.stop(), std::chrono::seconds(1));
  }
  return kExitOk;
}

int status(const Console& console, StatusOptions options) {
  if (const auto code = show_submitted(console, options.study)) return *code;
  if (options.watch && !console.json) {
    return watch_status(console, options.study);
  }
  LoadedStudy loaded =
      load_study(find_database(options.study), StoreMode::read_only);
  TunerQuestion().ask(loaded);
  add_resting(loaded);
  if (console.json) {
    console.print(status_json(loaded.study, loaded.facts));
  } else {
    console.print(status_text(loaded.study, shown_facts(loaded),
                              style_of(console),
                              options.all ? 0 : trials_that_fit(console)));
  }
  return kExitOk;
}

// The store's best step knows of no requirements.
CurvePart part_needed(const std::filesystem::path& database) {
  const LoadedStudy loaded =
      load_study(database, StoreMode::read_only, CurvePart::ends);
  return loaded.study.recipe.objective.require.empty() ? CurvePart::ends
                                                       : CurvePart::whole;
}

std::string yaml_of(const Value& value) {
  return std::visit([](const auto& v) { return json_text(nlohmann::json(v)); },
                    value);
}

// A recipe of the point alone. A command is given its parameters by their
// names: they stay, each with one value.
std::string recipe_of(const LoadedStudy& loaded, const Point& point) {
  const Recipe& recipe = loaded.study.recipe;
  if (!recipe.command) return loaded.recipe.with_point(point).yaml;
  std::vector<Override> fixed;
  for (const auto& [name, value] : point) {
    fixed.push_back({"space." + name, yaml_of(value)});
  }
  if (!recipe.points.empty()) fixed.push_back({"points", "[]"});
  if (!recipe.warm_start.empty()) fixed.push_back({"warm_start", "[]"});
  return RecipeFile::parse_stored(loaded.recipe.resolved_yaml(),
                                  loaded.facts.database, "", fixed)
      .resolved_yaml();
}

int best(const Console& console, const BestOptions& options) {
  if (options.recipe && (options.pareto || console.json)) {
    throw Error(ErrorKind::config,
                fmt::format("dtune best: --recipe and {} exclude each other (a "
                            "recipe is YAML, of one point)",
                            options.pareto ? "--pareto" : "--json"));
  }
  const std::filesystem::path database = find_database(options.study);
  const LoadedStudy loaded =
      load_study(database, StoreMode::read_only, part_needed(database));
  if (options.pareto) {
    TextStyle style = style_of(console);
    if (!console.out_terminal) style.columns = INT_MAX;
    console.print(console.json ? pareto_json(loaded.study)
                               : pareto_text(loaded.study, style));
    return kExitOk;
  }
  const Trial* chosen = chosen_trial(loaded.study, loaded.facts);
  if (chosen == nullptr) {
    throw Error(
        ErrorKind::study,
        fmt::format("{}: {} (see {})", loaded.facts.database,
                    why_no_best(loaded.study),
                    quoted_command("dtune status " +
                                   shell_quoted(loaded.facts.database))));
  }
  if (options.recipe) {
    console.print(recipe_of(loaded, chosen->point));
    return kExitOk;
  }
  console.print(console.json ? best_json(loaded.study, loaded.facts)
                             : best_text(loaded.study, shown_facts(loaded),
                                         style_of(console)));
  return kExitOk;
}

int show(const Console& console, const ShowOptions& options) {
  const LoadedStudy loaded =
      load_study(find_database(options.study), StoreMode::read_only);
  const Trial& trial = find_trial(loaded, options.trial);
  const auto events = loaded.store->load_events(trial.id);
  console.print(console.json ? trial_json(loaded.study, trial, events)
                             : trial_text(loaded.study, trial, events,
                                          style_of(console)));
  return kExitOk;
}

}  // namespace

Action declare_status(Arguments& arguments) {
  auto options = std::make_shared<StatusOptions>();
  arguments.describe(
      "Shows how far a study is: trials by state, the best ones, failures and "
      "their causes. Never disturbs a running study.");
  arguments.study(options->study);
  arguments.flag("--watch", options->watch,
                 "Keep showing it until the study ends.");
  arguments.flag("--all", options->all, "List all trials.");
  arguments.json();
  arguments.example("dtune status recipe.yaml --watch",
                    "follow a study that runs elsewhere");
  arguments.example("dtune status digits-3f2a",
                    "of a study that was submitted to an engine");
  arguments.example("dtune status recipe.db --json | jq .best.params",
                    "for programs");
  return
      [options](const Console& console) { return status(console, *options); };
}

Action declare_best(Arguments& arguments) {
  auto options = std::make_shared<BestOptions>();
  arguments.describe("Shows the best point of a study and its metrics.");
  arguments.study(options->study);
  arguments.json("As JSON: trial, params, metrics, model.");
  arguments.flag("--pareto", options->pareto,
                 "All trade-offs between the objective and the metrics of "
                 "objective.trade_off that no trial improves on.");
  arguments.flag("--recipe", options->recipe,
                 "As a recipe of this point alone.");
  arguments.example("dtune best recipe.db", "the winner");
  arguments.example("dtune best recipe.db --json | jq .params.lr",
                    "one value for a script");
  return [options](const Console& console) { return best(console, *options); };
}

Action declare_show(Arguments& arguments) {
  auto options = std::make_shared<ShowOptions>();
  arguments.describe(
      "Shows one trial: its point, its curve, what happened to it and why.");
  arguments.study(options->study);
  arguments.positional("TRIAL", options->trial, "The trial's number.",
                       Complete::nothing, true);
  arguments.json();
  arguments.example("dtune show recipe.db 7", "why trial 7 was cut");
  return [options](const Console& console) { return show(console, *options); };
}

}  // namespace dtune
