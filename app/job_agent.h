// An agent that comes in by a job's key: one that an engine started, or a rank
// of a command that was started on several nodes.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "app/study_loader.h"

#include "dtune/cluster/agent.h"
#include "dtune/cluster/job_environment.h"
#include "dtune/cluster/job_key.h"
#include "dtune/config/recipe_file.h"

namespace dtune {

struct JobMeeting {
  std::string file;             // of the job's key, read again and again
  std::optional<JobKey> given;  // in place of `file`
  std::string endpoint;         // of the coordinator; "": as the key says
  Duration wait = std::chrono::minutes(10);  // to find it
  // The study is over without a coordinator; asked while none is there. May be
  // empty.
  std::function<bool()> over;
};

// Serves the run until it is over. A file is read again where the coordinator
// is gone or not there yet: another may have taken its place elsewhere. Returns
// as run_agent; Error(config) where there is no key or no address, at the end
// of `wait` where a file may still come.
int serve_job(AgentOptions agent, const JobMeeting& meeting,
              const std::atomic<int>& stop);

// What all agents of this program have in common: workers, guard, what the
// engine says of its job.
AgentOptions agent_of_job(const JobEnvironment& job);

// A rank beyond the first of `dtune run`: an agent of the study that rank 0
// runs, in the folder that all ranks share or by `given`, the file of a key or
// "-". Blocks until the run is over.
int serve_rank(const JobEnvironment& job, const RecipeFile& recipe,
               const std::filesystem::path& database, const std::string& given,
               const std::atomic<int>& stop);

}  // namespace dtune
