#include "dtune/cluster/slurm_launcher.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/text.h"

namespace dtune {
namespace {

ElasticOptions elastic_options(const EngineAddress& address) {
  ElasticOptions options;
  options.name = "slurm://" + address.place;
  options.most = slurm_max(address);
  options.listing_interval = slurm_poll(address);
  return options;
}

// Seconds before the end at which a job gets USR2; Slurm may be a quarter of a
// minute early.
int warning(const EngineAddress& address) {
  constexpr double kMost = 60;
  const double time = to_seconds(slurm_time(address));
  return static_cast<int>(time > 0 ? std::min(kMost, time / 4) : kMost);
}

// Slurm's own words, the same for many versions.
const FailureWord kSlurmWords[] = {
    {{"invalid partition", "Invalid partition"},
     "sinfo lists the partitions",
     true},
    {{"Invalid generic resource", "Invalid GRES"},
     "sinfo -o '%P %G' lists the partitions' gres",
     true},
    {{"Invalid account", "account or partition"},
     "sacctmgr show assoc lists your accounts",
     true},
    {{"Invalid qos", "Invalid QOS"}, "sacctmgr show qos lists them", true},
    {{"time limit is invalid", "time limit specification"},
     "write the time as 30m or 4h, and below the partition's limit",
     true},
    {{"node configuration is not available", "Invalid feature",
      "More processors requested", "Memory required by task"},
     "ask for less, or for another partition",
     true},
    {{"not permitted", "Access denied", "User's group"},
     "ask the cluster's administrators for access",
     true},
    {{"unrecognized option", "invalid option"},
     "this Slurm does not know it; leave the key out",
     true},
    {{"submit limit", "Limit", "temporarily unable"},
     "it is tried again; fewer jobs: max=",
     false},
    {{"Unable to contact", "timed out", "Connection refused", "Socket"},
     "the controller does not answer; it is tried again",
     false},
};

}  // namespace

std::vector<std::string> without_slurm_variables() {
  std::vector<std::string> words = {"env"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool of_job =
        name.starts_with("SLURM_") || name.starts_with("SBATCH_");
    if (!of_job || name == "SLURM_CONF") continue;
    words.insert(words.end(), {"-u", name});
  }
  return words;
}

LaunchFailure explain_slurm(const std::string& name, const ExitStatus& status,
                            const std::string& words) {
  constexpr int kNoProgram = 127;
  const std::string said = last_line_of(words, "Slurm printed no message");
  if (status.exit_code == kNoProgram) {
    return {
        fmt::format("{}: {} (are Slurm's commands in PATH here?)", name, said),
        true};
  }
  return explain_failure(find_failure(kSlurmWords, said), name, status, said);
}

std::string slurm_job_name(const std::string& study_id) {
  return "dtune-" + study_id;
}

SlurmLauncher::SlurmLauncher(SlurmLauncherOptions options, const Clock& clock)
    : ElasticLauncher(elastic_options(options.address), clock),
      options_(std::move(options)) {}

SlurmLauncher::~SlurmLauncher() { finish(std::chrono::seconds(10)); }

EngineCommand SlurmLauncher::command(Action action) {
  EngineCommand out{without_slurm_variables(), ""};
  const std::string name = slurm_job_name(options_.study_id);
  std::vector<std::string> words;
  if (action == Action::submit) {
    words = submission();
  } else if (action == Action::list) {
    words = {"squeue", "-h", "-r", "-n", name, "-o", "%A|%t|%r"};
  } else {
    words = {"scancel", "-n", name};
  }
  out.argv.insert(out.argv.end(), words.begin(), words.end());
  return out;
}

std::vector<std::string> SlurmLauncher::submission() const {
  std::vector<std::string> words = {
      "sbatch", "--parsable", "--job-name=" + slurm_job_name(options_.study_id),
      "--ntasks=1", "--no-requeue"};
  words.push_back(fmt::format("--signal=B:USR2@{}", warning(options_.address)));
  words.push_back("--output=" + (options_.logs / "slurm-%j.log").string());
  for (std::string& word : sbatch_options(options_.address)) {
    words.push_back(std::move(word));
  }
  std::string script = "exec";
  for (const std::string& word : options_.agent) {
    script += " " + shell_word(word);
  }
  words.push_back("--wrap=" + script);
  return words;
}

// "123" or "123;cluster", after what plug-ins of the site say.
std::string SlurmLauncher::submitted(const std::string& words) {
  const std::string line = last_line_of(words, "");
  const std::string job = line.substr(0, line.find(';'));
  return parse_number<uint64_t>(job) ? job : "";
}

std::vector<ListedJob> SlurmLauncher::listed(const std::string& words) {
  std::vector<ListedJob> jobs;
  std::istringstream lines(words);
  for (std::string line; std::getline(lines, line);) {
    const size_t state = line.find('|');
    const size_t reason = line.find('|', state + 1);
    if (state == std::string::npos || reason == std::string::npos) continue;
    const std::string short_state = line.substr(state + 1, reason - state - 1);
    ListedJob job;
    job.job = line.substr(0, state);
    // Pending, requeued, held back by its configuration; else it has started.
    job.pending = short_state == "PD" || short_state == "RQ" ||
                  short_state == "CF" || short_state == "RH";
    job.reason = line.substr(reason + 1);
    if (job.reason == "None") job.reason.clear();
    jobs.push_back(std::move(job));
  }
  return jobs;
}

LaunchFailure SlurmLauncher::explain(Action, const ExitStatus& status,
                                     const std::string& words) {
  return explain_slurm("slurm://" + options_.address.place, status, words);
}

}  // namespace dtune
