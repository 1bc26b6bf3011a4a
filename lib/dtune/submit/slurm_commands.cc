#include <chrono>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/cluster/launch_failure.h"
#include "dtune/cluster/slurm_launcher.h"
#include "dtune/submit/engine_commands.h"
#include "dtune/submit/tool.h"

namespace dtune {
namespace {

// "1234" of "1234;cluster", as sbatch --parsable writes it.
std::string job_id(const std::string& said) {
  const std::string line = last_line_of(said, "");
  return line.substr(0, line.find(';'));
}

// The job that works on it now: a follower, where requeue was refused.
std::string slurm_job(const Submission& submission) {
  std::ifstream file(submission.job_file);
  std::string word;
  return file >> word ? job_id(word) : submission.id;
}

std::string sbatch(const SubmitJob&, const std::filesystem::path& file) {
  return job_id(tool_output({"sbatch", "--parsable", file.string()}));
}

// "PENDING|Priority|" as people read it.
std::string squeue_words(const std::string& line) {
  const size_t first = line.find('|');
  const size_t second = line.find('|', first + 1);
  if (first == std::string::npos || second == std::string::npos) return line;
  const std::string state = lower_case(line.substr(0, first));
  const std::string reason = line.substr(first + 1, second - first - 1);
  const std::string nodes = line.substr(second + 1);
  if (!nodes.empty()) return state + " on " + nodes;
  return reason.empty() || reason == "None" ? state : state + ": " + reason;
}

EngineState slurm_state(const Submission& submission) {
  const std::string job = slurm_job(submission);
  const ToolResult said =
      run_tool({"squeue", "--noheader", "--jobs", job, "--format", "%T|%r|%N"});
  const std::string line = last_line_of(said.out, "");
  if (!said.good() && said.err.find("Invalid job id") == std::string::npos) {
    throw Error(ErrorKind::temporary,
                "squeue: " + last_line_of(said.err, "it failed"));
  }
  if (line.empty()) {
    return {false, fmt::format("job {} is not in the queue", job)};
  }
  return {true, fmt::format("job {}: {}", job, squeue_words(line))};
}

// Slurm kills what has not ended half a minute after its signal (KillWait).
void wait_for_end(const Submission& submission) {
  constexpr int kTurns = 200;
  constexpr auto kTurn = std::chrono::milliseconds(200);
  for (int turn = 0; turn < kTurns && slurm_state(submission).alive; ++turn) {
    std::this_thread::sleep_for(kTurn);
  }
}

// A coordinator that ends in time takes its agents' jobs out itself; those of
// one that was killed would wait for it to come back.
void slurm_cancel(const Submission& submission, const std::string& study) {
  tool_output({"scancel", slurm_job(submission)});
  if (study.empty()) return;
  wait_for_end(submission);
  tool_output({"scancel", "-n", slurm_job_name(study)});
}

}  // namespace

EngineCommands slurm_commands() {
  const auto none = [](const Submission&) {
    return std::vector<std::string>();
  };
  return {"slurm", sbatch, slurm_state, slurm_cancel, none, none};
}

}  // namespace dtune
