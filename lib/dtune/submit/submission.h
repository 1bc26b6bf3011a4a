// Studies that engines run: what is known of them, and what can be asked of the
// engine. Errors as tool_output().
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dtune/submit/request.h"

namespace dtune {

// What is kept of a submission, as JSON, in the study's folder; a copy in the
// user's state folder (state_directory()) is found by its name from anywhere.
// No part of it is secret.
struct Submission {
  std::string name;
  std::string to;        // the address
  std::string id;        // the engine's: "1234"; else the name
  std::string database;  // on this machine's disk; may not exist
  std::string log;       // likewise
  std::string job_file;  // Slurm: holds the id of the job that has followed
};

void store_submission(const Submission& submission,
                      const std::filesystem::path& folder);
// By its name; nothing where there is none of that name.
std::optional<Submission> find_submission(const std::string& name);
// The last one of the study with that folder.
std::optional<Submission> submission_of(const std::filesystem::path& folder);

// Hands the study over: sbatch, kubectl or aws. `job.key` goes through stdin.
Submission submit_study(const SubmitJob& job);

struct EngineState {
  bool alive = false;  // it runs, or will
  std::string text;    // "pending: Priority", in the engine's own words
};
EngineState engine_state(const Submission& submission);
// Takes it out of the engine, with the agents that its coordinator asked for,
// whose jobs have the id of the study (`study`; "": it has not begun). The study
// stays and can be gone on with. May take as long as the engine gives a job to
// end.
void cancel_submission(const Submission& submission, const std::string& study);

// Shows its log to its end, in place of this process; empty where it is the
// file `submission.log`.
std::vector<std::string> log_command(const Submission& submission);
// Shows its status where the database is out of reach from here; empty where
// no such command exists.
std::vector<std::string> status_command(const Submission& submission);

}  // namespace dtune
