#include "app/study_run.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "app/nodes.h"
#include "app/progress.h"
#include "app/remote_access.h"
#include "app/report_writer.h"
#include "app/seen_data.h"
#include "app/signals.h"
#include "app/study_check.h"
#include "app/study_files.h"
#include "app/study_history.h"
#include "app/study_report.h"
#include "app/study_tuner.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dtune/base/encrypt_ranks.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/cluster/job_environment.h"
#include "dtune/comm/socket.h"
#include "dtune/report/expectations.h"
#include "dtune/report/json.h"
#include "dtune/report/summary.h"
#include "dtune/review/markdown.h"
#include "dtune/tuner/factory.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw Error(error == std::errc::no_space_on_device ? ErrorKind::temporary
                                                       : ErrorKind::data,
                fmt::format("{}: cannot be created: {} (choose another place "
                            "with --db)",
                            path.string(), error.message()));
  }
}

bool shows_live(const Console& console, const RunView& view) {
  return can_redraw(console) && !console.quiet && !console.json &&
         !view.plain && !view.verbose;
}

std::unique_ptr<ProgressSink> make_progress(const Console& console,
                                            const RunView& view,
                                            const std::atomic<int>& stop,
                                            const std::string& hint) {
  std::vector<std::unique_ptr<ProgressSink>> sinks;
  if (!view.events.empty()) sinks.push_back(make_event_log(view.events));
  if (console.quiet) {
    sinks.push_back(make_quiet_progress());
  } else if (shows_live(console, view)) {
    sinks.push_back(make_live_progress(console, stop, hint));
  } else {
    sinks.push_back(
        make_plain_progress(console.json ? stderr : stdout, view.verbose));
  }
  return make_fan_out(std::move(sinks));
}

CoordinatorOptions coordinator_options(const LoadedStudy& loaded,
                                       const std::string& endpoint,
                                       fs::path prepared_data) {
  CoordinatorOptions options;
  options.endpoint = endpoint;
  options.checkpoints = fs::absolute(loaded.files.checkpoints());
  options.prepared_data = std::move(prepared_data);
  options.model_file = fs::absolute(loaded.files.model());
  options.recipe_for = [recipe = loaded.recipe](const Point& point) {
    return recipe.with_point(point).recipe;
  };
  return options;
}

bool asks_engines(const Recipe& recipe) {
  return std::ranges::any_of(recipe.nodes, is_elastic);
}

// Trials of before and from now on are then not judged by the same images.
void warn_of_other_data(const Console& console, const LoadedStudy& loaded,
                        const StudyCheck& check) {
  if (loaded.study.recipe.command) return;
  const std::string change = compare_seen_data(
      loaded.files.folder / kSeenData, PreparedData(check.prepared_data));
  if (change.empty()) return;
  console.warning(fmt::format(
      "{}: the data have changed since the study began: {} (its metrics are of "
      "other images than those of trials from now on; begin anew: 'dtune run "
      "--fresh')",
      source_path(loaded.study.recipe.data).string(), change));
}

// The search, and the training of the winner, until they end or are stopped.
StudyOutcome coordinate(const Console& console, LoadedStudy& loaded,
                        const RunView& view) {
  use_ports(view.ports);
  if (view.encrypt_ranks) encrypt_ranks();
  const Recipe& recipe = loaded.study.recipe;
  const Tuner tuner =
      make_tuner(recipe, loaded.study.horizon, tuner_options(recipe));
  const std::string hint = fmt::format(
      "stopping after saving the trials (Ctrl-C again: at once); "
      "resume with: dtune resume {}",
      shell_quoted(loaded.facts.database));
  const std::string said_hint = "\n" + hint + "\n";
  // The live table says it itself: other writers would tear it.
  const StopSignals signals(console.quiet || shows_live(console, view),
                            said_hint.c_str());
  const StudyCheck check =
      check_training(console, loaded.recipe, !view.listen.empty());
  make_folder(loaded.files.checkpoints());
  warn_of_other_data(console, loaded, check);
  std::optional<JobAccess> own_access;
  JobAccess* job_access = view.job_access;
  if (job_access == nullptr &&
      (asks_engines(recipe) || !view.job_key.empty())) {
    job_access = &own_access.emplace(loaded.files.job_key(), view.job_key);
  }
  const RemoteAccess access(loaded, view.listen, job_access);
  const SocketDirectory sockets;
  const std::string endpoint = sockets.endpoint("coordinator");
  std::unique_ptr<Nodes> nodes;
  CoordinatorOptions options =
      coordinator_options(loaded, endpoint, check.prepared_data);
  options.gangs.local = sockets.endpoint("gangs");
  options.trace = view.trace;
  // A person at a terminal who ends it wants it to end.
  options.returns = job_environment().returns && !console.out_terminal;
  access.describe(options);
  options.ensure_local_agent = [&nodes] { nodes->ensure(); };
  options.read_agents = [&nodes] { nodes->read_output(); };
  options.take_demand = [&nodes](const Demand& demand) {
    nodes->set_demand(demand);
  };
  // A queue may take a night.
  if (asks_engines(recipe))
    options.agent_timeout = std::chrono::hours(24 * 365);
  options.take_notices = [&nodes, others = options.take_notices] {
    std::vector<std::string> notices = nodes->take_notices();
    if (others) std::ranges::move(others(), std::back_inserter(notices));
    return notices;
  };
  const auto progress = make_progress(console, view, signals.stop(), hint);
  // Not before all that can be checked: else a study that cannot go on would be
  // left with more budget, as one that runs.
  loaded.study.state = loaded.row.state = StudyState::running;
  loaded.store->put_study(loaded.row);
  Coordinator coordinator(loaded.study, *loaded.store, *tuner.sampler,
                          *tuner.scheduler, *progress, system_clock(),
                          std::move(options));
  access.announce(console, coordinator.remote_endpoint());
  nodes = std::make_unique<Nodes>(
      NodesOptions{.nodes = recipe.nodes,
                   .study_id = loaded.study.id,
                   .slots = check.slots,
                   .threads = check.slots.threads,
                   .fused = fused_wanted(recipe),
                   .local_endpoint = endpoint,
                   .remote_endpoint = coordinator.remote_endpoint(),
                   .make_token = [&access] { return access.make_token(); },
                   .log = fs::absolute(loaded.files.folder / "agent.log"),
                   .gangs = recipe.parallel.mode != ParallelMode::none,
                   .gpus = !recipe.command && recipe.train.device != "cpu",
                   .job_key = fs::absolute(loaded.files.job_key())});
  std::optional<ReportWriter> pages;
  if (!view.report.empty()) pages.emplace(loaded.files.database, view.report);
  return coordinator.run(signals.stop());
}

int code_of(StudyState state, bool passed) {
  switch (state) {
    case StudyState::finished:
      return passed ? kExitOk : kExitExpectationFailed;
    case StudyState::failed:
      return kExitStudyFailed;
    case StudyState::interrupted:
    case StudyState::running:
      return kExitInterrupted;
  }
  return kExitStudyFailed;
}

// Recipes write the bound beside the metric's name; reports show both.
std::vector<ExpectationResult> judge(const LoadedStudy& loaded) {
  auto results = evaluate_expectations(loaded.study, loaded.facts);
  for (ExpectationResult& result : results) {
    Expectation& expectation = result.expectation;
    if (!expectation.text.starts_with(expectation.metric)) {
      expectation.text = expectation.metric + " " + expectation.text;
    }
  }
  return results;
}

// The summary does not say why a study did not finish.
void tell_why(const Console& console, const StudyOutcome& outcome) {
  if (outcome.state == StudyState::failed || outcome.temporary) {
    Console text = console;
    text.json = false;  // stdout gets the result's document
    text.error(
        Error(outcome.temporary ? ErrorKind::temporary : ErrorKind::study,
              outcome.why));
  } else if (outcome.state != StudyState::finished && !outcome.why.empty()) {
    console.notice(outcome.why);
  }
}

// GitHub shows each step's summaries one below the other in one file.
void write_summary(const std::string& path, const std::string& text) {
  const char* shared = std::getenv("GITHUB_STEP_SUMMARY");
  const bool append = shared != nullptr && path == shared && fs::exists(path);
  write_file_atomic(path, append ? read_file(path) + text : text, false);
}

// A path that cannot be written is found before hours of search, not after.
void check_writable(const char* option, const fs::path& path) {
  if (path.empty()) return;
  if (is_stdout(path)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: - is stdout, where the run itself is shown "
                            "(name a file)",
                            option));
  }
  refuse_to_replace(path);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path& asked = fs::exists(path, error) ? path : folder;
  if (!is_folder && ::access(asked.c_str(), W_OK) == 0) return;
  throw Error(
      ErrorKind::data,
      fmt::format("{}: {}: cannot be written: {} (check the path and its "
                  "permissions)",
                  option, path.string(),
                  std::strerror(is_folder ? EISDIR : errno)));
}

void check_outputs(const RunView& view) {
  check_writable("--junit", view.junit);
  check_writable("--summary", view.summary);
  check_writable("--report", view.report);
  check_writable("--events", view.events);
  check_writable("--trace", view.trace);
}

// For the machines and people that do not see the terminal.
void write_result_files(const Console& console, const LoadedStudy& loaded,
                        const std::vector<ExpectationResult>& results,
                        const RunView& view) {
  const Study& study = loaded.study;
  if (!view.junit.empty()) {
    write_file_atomic(view.junit, junit_xml(study, results), false);
  }
  if (!view.summary.empty()) {
    write_summary(view.summary,
                  summary_markdown(study, shown_facts(loaded), results));
    std::fputs(github_annotations(results).c_str(), stderr);
  }
  if (!view.report.empty()) {
    write_file_atomic(view.report, study_report({loaded.files.database}),
                      false);
    console.notice(fmt::format("wrote {}", view.report));
  }
}

std::string result_json(const LoadedStudy& loaded,
                        const std::vector<ExpectationResult>& results) {
  auto document = parse_ordered_json(best_json(loaded.study, loaded.facts));
  const auto expected = parse_ordered_json(expectations_json(results));
  for (const auto& [key, value] : expected.items()) document[key] = value;
  return json_text(document, 2);
}

}  // namespace

void declare_progress(Arguments& arguments, RunView& view) {
  arguments.flag("--plain", view.plain, "Lines instead of the live table.");
  arguments.flag("--verbose", view.verbose,
                 "A line for every report and every change of a trial.");
  arguments.flag("--quiet", view.quiet, "No progress, only the result.");
}

void declare_view(Arguments& arguments, RunView& view) {
  declare_progress(arguments, view);
  arguments.json("The result as JSON on stdout, progress on stderr.");
  arguments.option("--events", view.events, "FILE",
                   "Append every event to FILE, a JSON object per line.",
                   Complete::file);
  arguments.option("--listen", view.listen, "ENDPOINT",
                   "Let agents of other machines join, e.g. "
                   "tcp://10.0.0.1:5555 (needs 'dtune keygen' once).");
  arguments.option("--ports", view.ports, "A-B",
                   "The ports of this machine that its fire wall lets in, for "
                   "ranks.");
  arguments.flag(
      "--encrypt-ranks", view.encrypt_ranks,
      "Encrypt the traffic of ranks of this machine with others, and of those "
      "of its nodes (Gloo; slower).");
  arguments.option("--trace", view.trace, "FILE",
                   "Write what the ranks of each trial do when, for Perfetto "
                   "or chrome://tracing (recipe: parallel).",
                   Complete::file);
  arguments.option("--junit", view.junit, "FILE",
                   "Write the outcome of 'expect:' as JUnit XML.",
                   Complete::file);
  arguments.option("--summary", view.summary, "FILE",
                   "Write the result as Markdown, and say on stderr which "
                   "expectations failed in the words of GitHub's workflow "
                   "commands.",
                   Complete::file);
  arguments.option("--report", view.report, "FILE",
                   "Write the page of 'dtune report' every now and then and "
                   "at the end.",
                   Complete::file);
  arguments.option("--notify", view.notify, "COMMAND",
                   "Run by a shell at the end; DTUNE_STUDY, DTUNE_DATABASE, "
                   "DTUNE_STATE and DTUNE_BEST are in its environment.");
}

StudyOutcome train_study(const Console& console, LoadedStudy& loaded,
                         const RunView& view) {
  check_program(loaded.recipe);
  StudyOutcome outcome = coordinate(console, loaded, view);
  try {
    refresh_facts(loaded);
  } catch (const Error& e) {
    // What could not be written is said; what was, is shown.
    if (!outcome.temporary || e.kind() != ErrorKind::temporary) throw;
    loaded.study.trials =
        load_study(loaded.files.database, StoreMode::read_only).study.trials;
  }
  loaded.study.state = outcome.state;
  tell_why(console, outcome);
  return outcome;
}

namespace {

constexpr double kLongRun = 60;  // seconds after which people look elsewhere

void notify(const Console& console, const LoadedStudy& loaded,
            const std::string& command) {
  const Study& study = loaded.study;
  const Trial* best = chosen_trial(study, loaded.facts);
  const ObjectiveSpec& objective = study.recipe.objective;
  const auto value =
      best == nullptr ? std::nullopt : best_value(objective, *best);
  ::setenv("DTUNE_STUDY", study.recipe.study.c_str(), 1);
  ::setenv("DTUNE_DATABASE", loaded.facts.database.c_str(), 1);
  ::setenv("DTUNE_STATE", to_string(study.state), 1);
  ::setenv("DTUNE_BEST",
           value ? format_metric(metric_of(objective, *value)).c_str() : "", 1);
  std::fflush(stdout);
  const int status = std::system(command.c_str());  // NOLINT: the user's words
  if (status != 0) {
    console.warning(fmt::format("--notify: '{}' failed", command));
  }
}

// For a user who looks elsewhere.
void call_user(const Console& console, const LoadedStudy& loaded,
               const RunView& view, double seconds) {
  if (!view.notify.empty()) notify(console, loaded, view.notify);
  if (console.out_terminal && !console.quiet && seconds > kLongRun) {
    console.print("\a");
  }
}

}  // namespace

int run_study(const Console& console, LoadedStudy& loaded,
              const RunView& view) {
  check_outputs(view);  // again: the study's own database exists only now
  const MonoTime start = system_clock().now();
  const StudyOutcome outcome = train_study(console, loaded, view);
  if (outcome.state == StudyState::finished) {
    remember_study(loaded.files.database);
  }
  const int code = report_result(console, loaded, view);
  call_user(console, loaded, view, to_seconds(system_clock().now() - start));
  return outcome.temporary ? kExitTemporary : code;
}

int with_junit(const RunView& view, const std::string& name,
               const std::function<int()>& command) {
  try {
    check_outputs(view);
    return command();
  } catch (const Error& error) {
    if (view.junit.empty() || is_stdout(view.junit)) throw;
    try {
      write_output(view.junit, junit_error_xml(name, error));
    } catch (const Error&) {
      // The first error says more.
    }
    throw;
  }
}

std::string more_trials_command(const LoadedStudy& loaded) {
  return quoted_command("dtune resume " + shell_quoted(loaded.facts.database) +
                        " --trials +20");
}

int report_result(const Console& console, const LoadedStudy& loaded,
                  const RunView& view) {
  const Study& study = loaded.study;
  const auto results = judge(loaded);
  const bool finished = study.state == StudyState::finished;
  write_result_files(console, loaded, results, view);
  if (console.json) {
    console.line(result_json(loaded, results));
  } else {
    const TextStyle style = style_of(console);
    console.print(summary_text(study, shown_facts(loaded), style));
    if (finished && !results.empty()) {
      console.print("\n" + expectations_text(results, style));
    }
  }
  return code_of(study.state, all_passed(results));
}

}  // namespace dtune
