// dtune run: from a recipe to a tuned, trained model.

#include <memory>

#include "app/command.h"
#include "app/job_agent.h"
#include "app/overrides.h"
#include "app/remote_access.h"
#include "app/signals.h"
#include "app/study_files.h"
#include "app/study_history.h"
#include "app/study_run.h"
#include "app/study_start.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "dtune/base/encrypt_ranks.h"
#include "dtune/base/port_range.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct RunOptions : RecipeOptions {
  bool fresh = false;
  RunView view;
};

fs::path choose_database(const Console& console, const RunOptions& options,
                         const fs::path& recipe) {
  if (!options.database.empty()) return options.database;
  const DefaultDatabase chosen = default_database(recipe);
  if (chosen.moved) {
    console.notice(fmt::format(
        "the folder of {} cannot be written: the study is kept in {}",
        recipe.string(), chosen.path.string()));
  }
  return chosen.path;
}

int show_result(const Console& console, const LoadedStudy& seen,
                const RunView& view) {
  console.notice(
      fmt::format("the study in {} is finished; this is its result (more: {}, "
                  "anew: --fresh)",
                  seen.facts.database, more_trials_command(seen)));
  return report_result(console, seen, view);
}

int continue_study(const Console& console, const fs::path& database,
                   const RecipeFile& file, RunView view,
                   const JobEnvironment& job) {
  LoadedStudy loaded = load_study(database, StoreMode::open);
  check_same_study(loaded, file);
  adopt_recipe(loaded, file);
  check_local_training(file.recipe());
  if (!loaded.study.trials.empty()) {
    console.notice(fmt::format("continuing the study in {}: {}",
                               loaded.facts.database,
                               describe_states(loaded.study)));
  }
  std::optional<JobAccess> job_access;  // for the other ranks; open from now on
  if (job.symmetric()) {
    view.job_access = &job_access.emplace(loaded.files.job_key(), view.job_key);
  }
  return run_study(console, loaded, view);
}

// What --fresh moves cannot be read as an earlier study afterwards.
void check_not_its_own(const RecipeFile& file, const fs::path& database) {
  for (const std::string& path : file.recipe().warm_start) {
    std::error_code error;
    if (!fs::equivalent(path, database, error)) continue;
    throw file.problem("warm_start",
                       fmt::format("'warm_start' names {}, this study's own "
                                   "database (keep it: --db OTHER.db)",
                                   path));
  }
}

// Checks first, moves an old study and writes last: what is wrong with the
// recipe or its data leaves everything as it was.
void start_anew(const Console& console, const RunOptions& options,
                const fs::path& database, const fs::path& path,
                const RecipeFile& file) {
  check_local_training(file.recipe());
  check_not_its_own(file, database);
  if (options.view.job_key.empty()) {
    check_remote_access(file.recipe(), options.view.listen, database);
  }
  const StudyCheck check =
      check_study(console, file, !options.view.listen.empty());
  show_warnings(console, check.warnings);
  for (const std::string& note : check.data.notes) console.notice(note);
  if (!check.slots.why_cpu.empty()) {
    console.notice("trials run on the CPU: " + check.slots.why_cpu);
  }
  if (!check.warm_start.empty()) {
    console.notice(fmt::format("starts from earlier studies: {}",
                               fmt::join(check.warm_start, ", ")));
  }
  if (options.fresh) {
    const fs::path moved = move_aside(database);
    if (!moved.empty()) {
      console.notice(fmt::format("moved the old study to {}", moved.string()));
    }
  }
  create_study(database, path, file, check);
}

int run(const Console& standard, const RunOptions& options) {
  Console console = standard;
  console.quiet = options.view.quiet;
  const JobEnvironment job = job_environment();
  if (job.inside_engine()) ::umask(077);  // logs and results are the user's own
  if (job.symmetric()) {  // mpirun's terminal is that of all ranks
    console.out_terminal = console.out_color = console.err_color = false;
  }
  const fs::path path = find_recipe(options.recipe);
  // Not a link to it, which would lead nowhere once --fresh has moved it.
  const fs::path database =
      files_of(choose_database(console, options, path)).database;
  const RecipeFile file =
      load_for_study(path, overrides_of(options), database, options.fresh);
  check_program(file);
  if (job.rank > 0) {
    use_ports(options.view.ports);
    if (options.view.encrypt_ranks) encrypt_ranks();
    const StopSignals signals(true);
    return serve_rank(job, file, database, options.view.job_key,
                      signals.stop());
  }
  RunDecision decision;
  if (!options.fresh) decision = decide_run(database, file);
  if (decision.kind == RunDecision::Kind::show_result) {
    return show_result(console, *decision.seen, options.view);
  }
  decision.seen.reset();
  if (decision.kind == RunDecision::Kind::create) {
    start_anew(console, options, database, path, file);
  }
  return continue_study(console, database, file, options.view, job);
}

void declare_options(Arguments& arguments, RunOptions& options) {
  declare_recipe_options(arguments, options);
  arguments.flag("--fresh", options.fresh,
                 "Start anew; an existing database is moved to .bak-N.");
  arguments.option("--job-key", options.view.job_key, "FILE",
                   "A key for the agents of an engine's jobs ('dtune keygen "
                   "--job'; - reads stdin), where nodes share no folder.",
                   Complete::file);
  declare_view(arguments, options.view);
}

}  // namespace

Action declare_run(Arguments& arguments) {
  auto options = std::make_shared<RunOptions>();
  arguments.describe(
      "Tunes and trains what the recipe describes, shows how it goes, and "
      "leaves the best model as model.safetensors.\n\nRunning it again "
      "continues a study that was stopped, and shows the result of one that "
      "is finished. Ctrl-C stops cleanly; nothing finished is lost.\n\nExit "
      "codes: 0 ok, 1 an expectation of 'expect:' failed, 2 the recipe or the "
      "data are wrong, 3 the study failed, 75 try again later (disk full, "
      "database in use), 130 interrupted.");
  declare_options(arguments, *options);
  arguments.example("dtune run recipes/fashion-mnist.yaml",
                    "tune and train; the study is in "
                    "recipes/fashion-mnist.db");
  arguments.example("dtune run recipe.yaml --time 2m --set train.epochs=4",
                    "a quick try with fewer epochs");
  arguments.example(
      "dtune run recipe.yaml --seed 1 --deterministic --quiet "
      "--junit result.xml",
      "a check in CI: exit code 1 if 'expect:' does not hold");
  return [options](const Console& console) {
    return with_junit(options->view, options->recipe,
                      [&] { return run(console, *options); });
  };
}

}  // namespace dtune
