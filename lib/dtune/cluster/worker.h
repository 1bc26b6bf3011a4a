// A worker process: one slot, or several whose trials are trained as one
// program, kept warm between trials. Receives assignments
// from its agent, runs steps, reports; keeps paused trials in memory while
// there is room.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "dtune/base/clock.h"
#include "dtune/comm/curve.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

struct WorkerOptions {
  std::string endpoint;  // of the agent
  int slot = 0;
  int seats = 1;  // slots from this one on that it has
  int threads = 1;
  uint64_t warm_bytes = uint64_t{1} << 30;  // of paused sessions kept
  // This process's own; made by run_worker where they are empty.
  CurveKeys keys;
  // Where files of a coordinator whose disk is another are kept; "":
  // cache_directory().
  std::filesystem::path cache;
  // config's reader, passed in: the study's resolved YAML travels once, an
  // assignment carries only the point. With several seats it is called by
  // several threads.
  std::function<TrialRecipe(const std::string& yaml, const Point& point)>
      parse_recipe;
};

// Makes the runner for an assignment's recipe (CNN or command); called once
// per kind and slot, on first use, so that command studies never load LibTorch;
// with several seats by several threads.
using RunnerFactory =
    std::function<std::unique_ptr<TrialRunner>(const Recipe& recipe)>;

// Runs until it is stopped. Returns an exit code.
int run_worker(const WorkerOptions& options, const RunnerFactory& make_runner,
               const std::atomic<int>& stop);

// Runs any program as a trial (recipe `command:`).
//
// It gets its point as arguments (study/command_words.h) and in its
// environment:
//   DTUNE_PARAM_<NAME>  values, the name in capitals, other signs as _
//   DTUNE_TRIAL, DTUNE_ATTEMPT, DTUNE_SEED, DTUNE_STUDY
//   DTUNE_CHECKPOINT    a file that it may write, and should start from if it
//                       is there (contract in recipes/README.md)
//   DTUNE_STEP          steps that were reported before this start
//
// It reports by lines on its stdout (see command_lines.h): "step=3
// val_accuracy=0.91". A step is complete with the objective's metric; other
// metrics may come before, on lines of their own. Without step= each report is
// the next step; steps that it repeats after a restart are skipped. One that
// goes on from a checkpoint ahead of DTUNE_STEP, and so leaves steps out or
// ends without a report, is started again without the checkpoint, once. It may
// end before the horizon: its last report was the last step. Exit code 42, or a
// line "dtune: invalid <why>", says that its point makes no sense; any other
// code but 0 fails the trial, with the last lines it wrote as the detail.
//
// Between steps and while paused its process group is stopped (SIGSTOP). At the
// end of the session group and descendants are killed (SIGTERM,
// recipe.limits.grace later SIGKILL), also those that have left the group; one
// that has done its last step gets that long to end by itself.
std::unique_ptr<TrialRunner> make_command_runner();

}  // namespace dtune
