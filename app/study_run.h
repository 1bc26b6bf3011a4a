// Runs a study from its database until it ends or is stopped.
#pragma once

#include <functional>
#include <string>

#include "app/arguments.h"
#include "app/console.h"
#include "app/job_access.h"
#include "app/study_loader.h"

#include "dtune/cluster/coordinator.h"

namespace dtune {

// How a run is shown and judged; `dtune run` and `dtune resume` share it.
struct RunView {
  bool plain = false;    // lines even on a terminal
  bool verbose = false;  // a line for every event
  bool quiet = false;    // no progress
  std::string junit;     // file for JUnit XML, or ""
  std::string events;    // file for JSON lines, or ""
  std::string trace;     // file for the ranks' trace, or ""
  std::string report;    // file for the page of dtune report, or ""
  std::string summary;   // file for a summary in Markdown, or ""
  std::string notify;    // command to run at the end, or ""
  std::string listen;    // where agents of other machines join, or ""
  std::string ports;     // allowed_ports(), "5600-5699", or ""
  std::string job_key;   // file of a key made at submission, "-", or ""
  JobAccess* job_access = nullptr;  // for agents of an engine's jobs; not owned
  bool encrypt_ranks = false;
};

// How progress is shown: of all commands that train a study.
void declare_progress(Arguments& arguments, RunView& view);
// That and what else `dtune run` and `dtune resume` have in common.
void declare_view(Arguments& arguments, RunView& view);

// Trains what the budget of `loaded` (opened for writing) has left; says why
// where it did not finish. Blocks.
StudyOutcome train_study(const Console& console, LoadedStudy& loaded,
                         const RunView& view);

// Continues `loaded` (opened for writing) with what its budget has left, then
// reports as report_result does. Blocks; returns the exit code.
int run_study(const Console& console, LoadedStudy& loaded, const RunView& view);

// Runs a command, once it is clear that the files that `view` names can be
// written; an error that leaves no result is written to the JUnit file before
// it is thrown on. `name`: what the user called the study by.
int with_junit(const RunView& view, const std::string& name,
               const std::function<int()>& command);

// How a study that is finished goes on, as a sentence quotes it.
std::string more_trials_command(const LoadedStudy& loaded);

// Prints the result, evaluates `expect:`, writes the files that `view` names;
// returns the exit code.
int report_result(const Console& console, const LoadedStudy& loaded,
                  const RunView& view);

}  // namespace dtune
