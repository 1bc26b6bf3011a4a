// dtune submit, attach, cancel: studies that an engine runs.

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>

#include "app/command.h"
#include "app/machine.h"
#include "app/overrides.h"
#include "app/signals.h"
#include "app/study_check.h"
#include "app/study_files.h"
#include "app/submitted.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/base/random.h"
#include "dtune/cluster/job_key.h"
#include "dtune/store/trial_store.h"
#include "dtune/submit/submission.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct SubmitOptions {
  std::string recipe;
  std::string to;
  std::vector<std::string> set;
  std::string database;
  bool dry_run = false;
  std::vector<std::string> raw;
  std::string replacement;
};

uint64_t unique_number() {
  return mix_seed({static_cast<uint64_t>(system_clock().wall_ms()),
                   static_cast<uint64_t>(::getpid())}) >>
         32;
}

Template read_template(const fs::path& file, const SubmitEngine& engine) {
  constexpr uint64_t kMostBytes = 1 << 20;
  Template out;
  out.name = file.string();
  out.text = read_file(file, kMostBytes);
  const bool shell =
      engine.file.ends_with(".sh") || engine.file.ends_with(".sub");
  out.language = shell ? TemplateLanguage::shell : TemplateLanguage::json;
  return out;
}

// Where trials of a command start: the recipe's folder is in no container.
std::string recipe_for_container(const fs::path& recipe,
                                 std::vector<Override> overrides) {
  const bool said = std::ranges::any_of(overrides, [](const Override& one) {
    return one.key == "command.directory";
  });
  if (!said) overrides.insert(overrides.begin(), {"command.directory", "/"});
  return RecipeFile::load(recipe, overrides).resolved_yaml();
}

SubmitJob describe_job(const SubmitOptions& options) {
  SubmitJob job;
  job.to = parse_engine_address(options.to);
  const SubmitEngine& engine = submit_engine(job.to);
  const fs::path recipe = find_recipe(options.recipe);
  const RecipeFile file =
      RecipeFile::load(recipe, parse_overrides(options.set));
  check_program(file);
  job.recipe = fs::absolute(recipe).lexically_normal();
  const fs::path database = options.database.empty()
                                ? default_database(recipe).path
                                : fs::path(options.database);
  job.database = fs::absolute(database).lexically_normal();
  job.folder = files_of(job.database).folder;
  job.name = study_name_for_engines(file.recipe().study, unique_number());
  const bool container = job.to.engine == "k8s" || job.to.engine == "sagemaker";
  job.recipe_text =
      container && file.recipe().command
          ? recipe_for_container(recipe, parse_overrides(options.set))
          : file.resolved_yaml();
  job.set = options.set;
  job.program = own_program();
  job.raw = options.raw;
  if (!options.replacement.empty()) {
    job.replacement = read_template(options.replacement, engine);
  }
  return job;
}

// Two runs of one study would wait for each other.
void check_not_submitted(const SubmitJob& job) {
  const auto before = submission_of(job.folder);
  if (!before) return;
  const EngineState state = engine_state(*before);
  if (!state.alive) return;
  throw Error(ErrorKind::config,
              fmt::format("the study of {} is submitted already, as {}: {} "
                          "(dtune cancel {})",
                          short_path(job.recipe), before->name, state.text,
                          before->name));
}

int submit(const Console& console, const SubmitOptions& options) {
  if (options.to.empty()) {
    throw Error(ErrorKind::config,
                "dtune submit: --to is missing (slurm://PARTITION, "
                "k8s://NAMESPACE?image=..., see dtune submit --help)");
  }
  SubmitJob job = describe_job(options);
  if (options.dry_run) {
    console.print(render_request(job));
    return kExitOk;
  }
  check_not_submitted(job);
  // On a shared disk the coordinator makes its key itself.
  if (job.to.engine != "slurm") {
    job.key = make_job_key();
    job.key->port = kSubmitPort;
  }
  const Submission done = submit_study(job);
  if (console.json) {
    console.print(json_text(nlohmann::ordered_json{{"name", done.name},
                                                   {"to", done.to},
                                                   {"id", done.id},
                                                   {"database", done.database}},
                            2) +
                  '\n');
    return kExitOk;
  }
  console.line(done.name);
  console.notice(fmt::format(
      "submitted to {} as {}\n"
      "next     dtune status {}    (attach: its log; cancel: take it out)",
      done.to, done.id, done.name));
  return kExitOk;
}

// Prints what is new in a log until the engine has no more of the study. Asks
// the engine at its queue's pace, and sooner where the log says no more, as at
// the study's end.
int follow_log(const Console& console, const Submission& submission) {
  const StopSignals signals(true);
  constexpr int kPace = 300;  // turns of a tenth of a second
  constexpr int kSooner = 100;
  constexpr int kQuiet = 20;
  int asked = kPace;  // turns ago
  int heard = 0;      // turns ago
  std::ifstream log;
  std::string said;
  for (; signals.stop() == 0; ++asked, ++heard) {
    if (!log.is_open()) log.open(submission.log, std::ios::binary);
    log.clear();
    const std::string more(std::istreambuf_iterator<char>(log), {});
    console.print(more);
    std::fflush(stdout);
    if (!more.empty()) heard = 0;
    const bool ends = heard >= kQuiet && heard < asked && asked >= kSooner;
    if (asked >= kPace || ends) {
      const EngineState state = engine_state(submission);
      if (state.text != said)
        console.notice(submission.name + ": " + state.text);
      said = state.text;
      if (!state.alive && more.empty()) return kExitOk;
      asked = state.alive ? 0 : kPace;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return kExitInterrupted;
}

int attach(const Console& console, const std::string& name) {
  const Submission submission = need_submission(name);
  const auto command = log_command(submission);
  if (command.empty()) return follow_log(console, submission);
  console.notice(submission.name + ": " + engine_state(submission).text);
  become(command);
}

// "" where it has not begun, or its disk is out of reach from here.
std::string study_id(const Submission& submission) {
  try {
    const auto store =
        open_sqlite_store(submission.database, StoreMode::read_only);
    const auto row = store->load_study();
    return row ? row->id : "";
  } catch (const Error&) {
    return "";
  }
}

int cancel(const Console& console, const std::string& name) {
  const Submission submission = need_submission(name);
  cancel_submission(submission, study_id(submission));
  console.notice(
      fmt::format("{} is taken out of {}; submitted again, the study goes on",
                  submission.name, submission.to));
  return kExitOk;
}

constexpr const char* kNameHelp =
    "The name that dtune submit printed, or the recipe.";

}  // namespace

Action declare_submit(Arguments& arguments) {
  auto options = std::make_shared<SubmitOptions>();
  arguments.describe(
      "Hands a study to an engine that runs it, coordinator and agents: Slurm "
      "(sbatch), Kubernetes (kubectl), SageMaker (aws). For PBS, LSF, Flux, "
      "HTCondor, AWS Batch (batch://) and SkyPilot it writes a commented "
      "script to start by hand: --dry-run.\n\nPrints a name for dtune status, "
      "attach and cancel. Script and log are in the study's folder; no secret "
      "is in script, arguments, environment or log. 'dtune help engines' "
      "has the keys of each engine.");
  arguments.positional("RECIPE", options->recipe, "The recipe (YAML).",
                       Complete::recipe, true);
  arguments.option("--to", options->to, "ENGINE",
                   "slurm://PARTITION, k8s://NAMESPACE, sagemaker://ROLE, ...; "
                   "then ?KEY=VALUE&KEY=VALUE.");
  arguments.option("--set", options->set, "KEY=VALUE",
                   "Override a key of the recipe; may be given several times.");
  arguments.option("--db", options->database, "FILE",
                   "The study's database (default: beside the recipe).",
                   Complete::file);
  arguments.flag("--dry-run", options->dry_run,
                 "Print the script, manifest or request, and submit nothing.");
  arguments.option("--raw", options->raw, "LINE",
                   "Add a line to the engine's directives ('#SBATCH "
                   "--exclusive'); may be given several times.");
  arguments.option("--template", options->replacement, "FILE",
                   "Fill in FILE instead of dtune's own template.",
                   Complete::file);
  arguments.json("As JSON: name, id.");
  arguments.example(
      "dtune submit r.yaml --to 'slurm://gpu?max=8&time=4h&gres=gpu:1'",
      "a coordinator that asks for up to eight agents");
  arguments.example(
      "dtune submit r.yaml --to 'k8s://lab?image=reg/dtune:1' --dry-run",
      "see the manifests");
  return
      [options](const Console& console) { return submit(console, *options); };
}

Action declare_attach(Arguments& arguments) {
  auto name = std::make_shared<std::string>();
  arguments.describe(
      "Shows the log of a study that was submitted to an engine, to its end. "
      "Ctrl-C ends the showing, not the study.");
  arguments.positional("NAME", *name, kNameHelp, Complete::study, true);
  arguments.example("dtune attach digits-3f2a", "follow it");
  return [name](const Console& console) { return attach(console, *name); };
}

Action declare_cancel(Arguments& arguments) {
  auto name = std::make_shared<std::string>();
  arguments.describe(
      "Removes a submitted study from its engine. What was recorded "
      "stays; submitted again, it goes on.");
  arguments.positional("NAME", *name, kNameHelp, Complete::study, true);
  arguments.example("dtune cancel digits-3f2a", "end it");
  return [name](const Console& console) { return cancel(console, *name); };
}

}  // namespace dtune
